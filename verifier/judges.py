"""What judges windows: an acceptance rule with all that happens to logits before it, on a CPU or on a device.

A judge is a file and a line in the table.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from verifier.acceptance import make
from verifier.config import VerifierConfig
from verifier.pending import Pending, Wake
from verifier.step import Work


class Judge(Protocol):
    """One per verifier."""

    def begin(self, windows: Sequence[Work], logits_NV: Any, wake: Wake) -> Pending:  # noqa: ANN401, N803  # torch's
        """A verdict for each window, of `draws` rows of logits each, which may be changed until it is taken.

        Of no windows nothing comes, but not before what was asked of the device is done.
        """


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
