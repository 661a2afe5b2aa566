"""What judges windows: an acceptance rule with all that happens to logits before it, on a CPU or on a device.

A judge is a file and a line in the table.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from verifier.acceptance import make
from verifier.config import VerifierConfig
from verifier.step import Verdict, Work

Judge = Callable[[Sequence[Work], Any], list[Verdict]]
"""(windows, logits_NV) -> a verdict for each window; `draws` rows of logits for each, which may be changed."""


def _torch(config: VerifierConfig) -> Judge:
    from verifier.judge_torch import TorchJudge  # noqa: PLC0415  # the table lists without torch

    return TorchJudge(make(config))


def _triton(config: VerifierConfig) -> Judge:
    from verifier.judge_triton import TritonJudge  # noqa: PLC0415

    return TritonJudge(config)


JUDGES: Final[Mapping[str, Callable[[VerifierConfig], Judge]]] = {
    "torch": _torch,
    "triton": _triton,
}


def judge(config: VerifierConfig) -> Judge:
    """The one that a configuration names; `auto` is what suits its device."""
    name = config.acceptance
    if name == "auto":
        name = "torch" if config.device == "cpu" else "triton"
    return JUDGES[name](config)
