"""Verdicts that may still be on their way from a device, while whoever waits for them does other things. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from verifier.step import Verdict

Wake = Callable[[], None]
"""Called, from any thread, when verdicts that were not ready are."""


class Pending(Protocol):
    """Verdicts of one step."""

    def ready(self) -> bool:
        """Whether `take` would not wait."""

    def take(self) -> list[Verdict]:
        """The verdicts in order, waited for if need be. Once."""


@dataclass(frozen=True, slots=True)
class Known:
    """They are here already."""

    verdicts: Sequence[Verdict]

    def ready(self) -> bool:
        return True

    def take(self) -> list[Verdict]:
        return list(self.verdicts)


@dataclass(frozen=True, slots=True)
class Then:
    """What is made of others when they are taken."""

    first: Pending
    make: Callable[[list[Verdict]], list[Verdict]]

    def ready(self) -> bool:
        return self.first.ready()

    def take(self) -> list[Verdict]:
        return self.make(self.first.take())
