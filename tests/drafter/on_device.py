"""Heads beside each other on the CPU's way and the device's: same texts, same rows, same wishes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from drafter.config import DrafterConfig, HiddenConfig
from drafter.heads.blocks import BlockProposer, make_block
from drafter.heads.slots import at_once, one_by_one
from drafter.mirror import Mirror
from drafter.proposers import Proposal, eagle3
from engine.device import Device
from protocol.messages import Sampling
from protocol.tensor import Tensor as Sent
from tests import heads
from tests.drafter.stories import mirror_of

Proposer = eagle3.ChainProposer | BlockProposer
PROMPT: Final = [5, 9, 33, 7, 60, 12, 81, 4, 44, 21]
OUTPUT: Final = [101, 7, 55]


@dataclass(frozen=True)
class Kind:
    """A head, how it is drafted with, and how many states its rows hold."""

    method: str
    write: Callable[[Path], Path]
    states: int


KINDS: Final = {
    "eagle-1": Kind("eagle3", heads.eagle_1, 1),
    "eagle-3, small vocabulary": Kind("eagle3", heads.eagle_3, 3),
    "dflash": Kind("dflash", heads.zlab_dflash, 2),
    "dflash, small vocabulary": Kind("dflash", heads.speculators_dflash, 2),
    "dspark, vanilla": Kind("dspark", heads.specforge_dspark, 2),
    "dspark, gated": Kind("dspark", heads.deepspec_dspark, 2),
    "dspark, rnn": Kind("dspark", heads.speculators_dspark, 2),
    "dspark, small vocabulary": Kind(
        "dspark",
        lambda folder: heads.speculators_dspark(
            folder, kind="vanilla", vocab=120, sample_from_anchor=False
        ),
        2,
    ),
}
WISHES: Final = {
    "greedy": [Sampling()] * 3,
    "as the target draws": [
        Sampling(temperature=0.8, seed=1),
        Sampling(temperature=1.1, top_k=20, top_p=0.9, min_p=0.01, seed=2),
        Sampling(),
    ],
    "drawn with laws": [
        Sampling(temperature=0.9, seed=3),
        Sampling(temperature=1.2, top_k=5, top_p=0.8, min_p=0.02, seed=4),
        Sampling(),
        Sampling(temperature=0.7, seed=5),
    ],
}
SLICES: Final = {"drawn with laws": (8, 6, 8, 0)}
"""Tokens that a guess may be drawn from, of each request."""


def made(kind: Kind, folder: Path, target: Path, device: Device, **more: Any) -> Proposer:
    """The proposer of a method, on this device whatever the configuration says."""
    config = DrafterConfig(
        method=kind.method, model=folder, target=target,
        hidden=HiddenConfig(projected=False), **({"dtype": "float32", "kv_bytes": 1 << 22} | more),
    )  # fmt: skip
    if kind.method == "eagle3":
        return eagle3.make(config, device)
    return make_block(config, at_once if kind.method == "dflash" else one_by_one, device)


def mirrors_of(wishes: Sequence[Sampling], slices: Sequence[int] = ()) -> list[Mirror]:
    """Requests whose texts differ in length."""
    mirrors = [
        mirror_of(PROMPT * (1 + number), OUTPUT, request=number, sampling=each)
        for number, each in enumerate(wishes)
    ]
    for mirror, size in zip(mirrors, slices, strict=False):
        mirror.slice = size
    return mirrors


def tell(proposer: Proposer, mirrors: Sequence[Mirror], width: int, dtype: str = "float32") -> None:
    """Rows of all that is committed."""
    for mirror in mirrors:
        proposer.open(mirror)
        count = len(mirror.prompt) + mirror.base - 1
        rows = np.random.default_rng(mirror.request).normal(size=(count, width)).astype(np.float32)
        if dtype == "bfloat16":
            rows = (rows.view(np.uint32) >> 16).astype(np.uint16)
        proposer.hidden(mirror, 0, Sent(dtype, (count, width), rows.tobytes()))


def drafted(proposer: Proposer, mirrors: Sequence[Mirror], want: int) -> list[Proposal]:
    """What a few rounds say of each."""
    said: list[Proposal] = []
    for _ in range(want):
        wants = [(mirror, mirror.base + want - len(mirror.line)) for mirror in mirrors]
        proposals = proposer.propose(wants)
        for mirror, each in zip(mirrors, proposals, strict=True):
            mirror.extend(each.tokens, each.confidences, each.laws)
        said += proposals
    return said
