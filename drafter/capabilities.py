"""What a proposer may be able to do beyond proposing, and what a drafter makes of that."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from drafter.config import DrafterConfig
from drafter.mirror import Mirror
from drafter.proposers import Proposer
from engine.pages import PagePool
from protocol.messages import CorpusEntry, Fingerprint
from protocol.tensor import Tensor


class Library(Protocol):
    """Documents that a proposer may copy from."""

    def add(self, name: str, documents: Sequence[Sequence[int]], *, append: bool) -> None:
        """Take documents in; ready some time later. A ValueError says why not."""

    def remove(self, name: str) -> None:
        """Forget a corpus; a ValueError if there is none of that name."""

    def entries(self) -> Sequence[CorpusEntry]:
        """What is there."""


@runtime_checkable
class HoldsDocuments(Protocol):
    """A proposer with a library."""

    corpora: Library


@runtime_checkable
class Learns(Protocol):
    """A proposer that remembers past requests."""

    def reset(self) -> None:
        """Forget them."""


@runtime_checkable
class Bounded(Protocol):
    """A proposer whose model knows so many positions."""

    context: int


@runtime_checkable
class HoldsPages(Protocol):
    """A proposer whose model keeps KV."""

    @property
    def pool(self) -> PagePool:
        """Where its pages come from and go back to."""


@runtime_checkable
class Weighty(Protocol):
    """A proposer with a model: whose weights they are, and which tokenizer's ids it speaks."""

    fingerprint: Fingerprint


@runtime_checkable
class TakesHidden(Protocol):
    """A proposer that reads the target's hidden states; `needs` says which, as verifiers say what they give."""

    needs: tuple[str, ...]

    def hidden(self, mirror: Mirror, start: int, rows: Tensor) -> None:
        """Rows [n, width] of positions `start`... of prompt and output; a PeerError if they cannot be."""


def fingerprint(proposer: Proposer) -> Fingerprint:
    """What a drafter says of its model, if its method has one."""
    return proposer.fingerprint if isinstance(proposer, Weighty) else Fingerprint()


def context(config: DrafterConfig, proposer: Proposer) -> int:
    """Positions that are drafted for: what was configured, and what the method can; 0: no limit."""
    limits = [config.context, proposer.context if isinstance(proposer, Bounded) else 0]
    return min(filter(None, limits), default=0)
