"""`orchestrator bench threads`: how many threads, how they wait, where they run; and what a service makes of it.

The launcher (`orchestrator/launch/threads.py`) decides these for users. This is what its decisions are made from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.table import Table

from orchestrator.bench.results import Label, Summary
from orchestrator.bench.systems import Ours
from orchestrator.bench.table import between, columns, number
from orchestrator.config import Config
from orchestrator.launch.plan import Child, children
from verifier.config import VerifierConfig

WAITING: Final[Mapping[str, Mapping[str, str]]] = {
    "default": {},
    "active": {"OMP_WAIT_POLICY": "ACTIVE"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"},
    "brief": {"GOMP_SPINCOUNT": "100000"},
}
"""What threads do at a barrier until the last of them is there."""

PINNING: Final[Mapping[str, Mapping[str, str]]] = {
    "free": {},
    "pinned": {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"},
}
_DECIDED: Final = frozenset().union(*WAITING.values(), *PINNING.values())


@dataclass(frozen=True)
class Setting:
    """Of the processes that compute."""

    threads: int
    waiting: str
    pinning: str

    def __str__(self) -> str:
        return f"{self.threads} {self.waiting} {self.pinning}"

    def arrange(self, config: Config, target: Path, draft: Path | None, cores: int) -> list[Child]:
        """The processes of a service under this setting, whatever the launcher thinks of it."""
        parts = config.verifier.model_copy(update={"threads": self.threads})
        own = config.model_copy(update={"verifier": parts})
        return [self._applied(child) for child in children(own, target, draft, cores)]

    def _applied(self, child: Child) -> Child:
        if child.role == "front":
            return child
        kept = {name: text for name, text in child.environment.items() if name not in _DECIDED}
        said = {**kept, **WAITING[self.waiting], **PINNING[self.pinning]}
        if isinstance(child.config, VerifierConfig):
            said["OMP_NUM_THREADS"] = str(self.threads)
        return replace(child, environment=said)


def settings(cores: int) -> list[Setting]:
    """Those worth measuring: a thread that is alone waits for nobody."""
    numbers = sorted({1, *(count for count in (2, 4, 8, 16, 32) if count < cores), cores})
    return [
        Setting(count, waiting, pinning)
        for count in numbers
        for waiting in (WAITING if count > 1 else ("default",))
        for pinning in PINNING
    ]


def services(config: Config, wanted: Sequence[Setting]) -> list[Ours]:
    """A service for each."""
    return [Ours(Label(mode=str(each)), config, each.arrange) for each in wanted]


def best(done: Sequence[Summary]) -> Mapping[int, str]:
    """The fastest setting for each number of streams."""
    fastest: dict[int, Summary] = {}
    for one in done:
        former = fastest.setdefault(one.row.concurrency, one)
        if one.row.output_tokens_per_s > former.row.output_tokens_per_s:
            fastest[one.row.concurrency] = one
    return {streams: one.row.mode for streams, one in fastest.items()}


def table(done: Sequence[Summary]) -> Table:
    """A line for each setting, tokens a second for each number of streams; the fastest has a star."""
    streams = sorted({one.row.concurrency for one in done})
    winners = best(done)
    cells: dict[str, dict[int, str]] = {}
    for one in done:
        star = "* " if winners[one.row.concurrency] == one.row.mode else ""
        figure = number(one.row.output_tokens_per_s, 1) + between(one.speed, 1, one.runs)
        cells.setdefault(one.row.mode, {})[one.row.concurrency] = star + figure
    heads = ("threads", "waiting", "pinning", *(f"tokens/s, {count} at once" for count in streams))
    lines = [
        (*mode.split(), *(figures.get(count, "") for count in streams))
        for mode, figures in cells.items()
    ]
    return columns(heads, lines, left=3)
