"""Drafting methods: one file each, one line each in the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol

from drafter.config import DrafterConfig
from drafter.mirror import Kept, Mirror
from protocol.laws import Law


@dataclass(frozen=True, slots=True)
class Proposal:
    """Guesses for one mirror in order of position, and for each the chance that it is right if those before it are.

    Where `mirror.slice` allows draws, `laws` are what each of the guesses was drawn from; none: they were not drawn.

    `pending` says that fewer than wanted does not mean the end: the proposer goes on when it is asked again.
    """

    tokens: Sequence[int] = ()
    confidences: Sequence[float] = ()
    pending: bool = False
    laws: Sequence[Law] = ()


class Proposer(Protocol):
    """A drafting method. It never sees the network; everything it knows of a request comes through its mirror."""

    def open(self, mirror: Mirror) -> None:
        """A new mirror; what is expensive waits for `propose`."""

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        """A commit was taken over: `mirror` is already up to date, `kept` says what of the earlier line is in it."""

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        """Continue each mirror's line by at most the wanted number of tokens; fewer says: no more for now."""

    def close(self, mirror: Mirror) -> None:
        """The mirror goes; whatever is worth keeping of it is kept now."""


def _lazy(module: str) -> Callable[[DrafterConfig], Proposer]:
    def make(config: DrafterConfig) -> Proposer:
        proposer: Proposer = import_module(f"drafter.proposers.{module}").make(config)
        return proposer

    return make


PROPOSERS: Final[Mapping[str, Callable[[DrafterConfig], Proposer]]] = {
    "suffix": _lazy("suffix"),
    "ngram": _lazy("ngram"),
    "standalone": _lazy("standalone"),
    "eagle3": _lazy("eagle3"),
    "dflash": _lazy("dflash"),
    "dspark": _lazy("dspark"),
    "mixed": _lazy("mixed"),
    "drawn": _lazy("drawn"),
    "scripted": _lazy("scripted"),
    "wrong": _lazy("wrong"),
}
