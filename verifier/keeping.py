"""What a verifier writes to files while it serves: costs that it learned, rounds that are recorded for the bench."""

import logging
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import msgspec

from verifier.costs import Costs
from verifier.planner import Planner
from verifier.profiling import read, write
from verifier.traces import Traces

log = logging.getLogger(__name__)

EVERY: Final = 60.0
"""Seconds between two writes of what was learned."""
ENOUGH: Final = 512
"""Steps that must have taught something since."""


@runtime_checkable
class WeighsCosts(Protocol):
    """A planner that reads a cost table."""

    costs: Costs


class Keeper:
    """Told of the time when everybody who waits was told everything else."""

    def __init__(
        self,
        planner: Planner,
        table: Path,
        machine: str,
        traces: Traces | None,
        trace: Path | None,
        *,
        buckets: tuple[int, ...] = (),
    ) -> None:
        self._costs = planner.costs if isinstance(planner, WeighsCosts) else None
        if self._costs is not None:
            self._costs.buckets = buckets
        self._table = table
        self._machine = machine
        self._traces = traces
        self._trace = trace
        self._written = 0
        self._next = 0.0
        if self._costs is not None:
            self._begin(self._costs)

    def _begin(self, costs: Costs) -> None:
        try:
            known = read(self._table)
        except ValueError as error:
            log.warning("%s; costs are learned anew", error)
            known = None
        if known is None:
            log.info("there is no cost table for this machine and model: it is learned from steps")
            return
        log.info("cost table %s, %d sizes", self._table, len(known.tokens))
        costs.known = known
        costs.forget_table()

    def turn(self, now: float) -> None:
        """Write what is due."""
        if self._traces is not None and self._trace is not None and self._traces.lines:
            with self._trace.open("ab") as file:
                for line in self._traces.take():
                    file.write(msgspec.json.encode(line) + b"\n")
        if now >= self._next:
            self._next = now + EVERY
            self._keep()

    def _keep(self) -> None:
        costs = self._costs
        if costs is None or costs.steps < self._written + ENOUGH or costs.table is None:
            return
        self._written = costs.steps
        try:
            write(self._table, costs.table, self._machine, f"learned from {costs.steps} steps")
        except OSError as error:
            log.warning("what steps cost cannot be kept: %s", error)

    def close(self) -> None:
        """The last words."""
        self.turn(float("inf"))
