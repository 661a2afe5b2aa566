"""Forwards over several ranks: rank 0 leads, the others follow. See `engine.ranks`."""

from collections.abc import Sequence

from engine.attention import Reached
from engine.ranks import OVER, Words, heard, spoken
from engine.runner import Engine, Forward, Row


class SpanningEngine:
    """The same forwards as `Engine.forward`, run by all ranks at once: this is rank 0."""

    def __init__(self, engine: Engine, ranks: Words) -> None:
        self.config = engine.config
        self._engine = engine
        self._ranks = ranks

    def forward(
        self, rows: Sequence[Row], hidden: Sequence[int] = (), reached: Reached | None = None
    ) -> Forward:
        """See `engine.runner.Engine.forward`."""
        self._engine.check(rows)  # what is refused here, nobody hears of
        self._ranks.tell(spoken(rows))
        return self._engine.forward(rows, hidden, reached)


def follow(engine: Engine, ranks: Words) -> None:
    """Run whatever rank 0 runs, until it says that it was the last.

    Hidden states are the same on all ranks, so only rank 0 keeps what drafters need of them.
    """
    while (words := ranks.hear()) != OVER:
        engine.forward(heard(words))
