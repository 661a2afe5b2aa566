"""What can be measured: a new system is one entry in the table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final, Protocol

import httpx
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.bench.client import SILENCE
from orchestrator.bench.colocated import merged
from orchestrator.bench.errors import BenchError
from orchestrator.bench.results import Label, Work
from orchestrator.bench.servers import Transformers, VllmCpu
from orchestrator.commands.service import launch, reachable, serving
from orchestrator.config import Config, near
from orchestrator.launch.plan import Child, children
from orchestrator.settings import ConfigError
from verifier.planners import PLANNERS

Arrange = Callable[[Config, Path, Path | None, int], list[Child]]


class System(Protocol):
    """Something that answers the same questions as others."""

    @property
    def label(self) -> Label: ...

    def fresh(self) -> AbstractContextManager[str]:
        """Its URL, while it serves and remembers nothing of earlier runs."""

    def drafts(self) -> tuple[int, int] | None:
        """Tokens drafted and accepted so far, from a system whose answers do not say it."""

    def work(self, url: str) -> Work | None:
        """What its sides did since it began, from a system that says it."""

    def close(self) -> None:
        """Nothing of it is left."""


@dataclass(frozen=True)
class Ours:
    """A service as `orchestrator up` starts it; a new one for every run, so there is nothing to forget."""

    label: Label
    config: Config
    arrange: Arrange = children

    @contextmanager
    def fresh(self) -> Iterator[str]:
        config = self.config.model_copy(update={"host": "127.0.0.1", "port": 0})
        service = launch(config, arrange=self.arrange, news=lambda *_: None)
        try:
            if not serving(service):
                over = service.wait()
                raise BenchError(over.text if over and over.text else f"{self.label} did not start")
            yield reachable(service.url)
        finally:
            service.stop()
            service.wait()

    def drafts(self) -> None:
        """Answers say it."""

    def work(self, url: str) -> Work:
        """From its metrics, which are as old as the newest report of each process: a second."""
        return work_of(httpx.get(f"{url}/metrics", timeout=SILENCE).raise_for_status().text)

    def close(self) -> None:
        """It ended with its run."""


def work_of(metrics: str) -> Work:
    """Means over processes of a kind; nothing of a kind that is not there."""
    seconds: dict[str, list[float]] = {
        "draftmesh_step_seconds": [],
        "draftmesh_propose_seconds": [],
    }
    for family in text_string_to_metric_families(metrics):
        if (found := seconds.get(family.name)) is not None:
            found += [each.value for each in family.samples if each.name.endswith("_sum")]
    return Work(*(sum(each) / max(len(each), 1) for each in seconds.values()))


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is compared: with what configuration, and by which of our methods and planners."""

    config: Config
    methods: Sequence[str]
    planners: Sequence[str]
    overlaps: Sequence[bool] = ()
    """Empty: as it is configured."""
    peers: Path | None = None
    """Where the environments of peers lie, if not in the cache."""

    def ours(self, mode: str, arrange: Arrange = children) -> list[System]:
        """One for each method and planner, and each way of taking turns."""
        made: list[System] = []
        overlaps: Sequence[bool | None] = self.overlaps or (self.config.overlap,)
        for method, planner, overlap in product(self.methods, self.planners, overlaps):
            words = ("on" if overlap else "off") if self.overlaps else None
            label = Label(mode=mode, method=method, planner=planner, overlap=words)
            made.append(Ours(label, self._with(method, planner, overlap=overlap), arrange))
        return made

    def _with(self, method: str, planner: str, *, overlap: bool | None) -> Config:
        if planner not in PLANNERS:
            raise ConfigError(f"There is no planner {planner!r}{near(planner, PLANNERS)}")
        verifier = self.config.verifier
        parts = verifier.planner.model_copy(update={"name": planner})
        verifier = verifier.model_copy(update={"planner": parts})
        values = {"method": method, "overlap": overlap, "verifier": verifier}
        return self.config.model_copy(update=values)


def _plain(wanted: Wanted) -> list[System]:
    return [Ours(Label(mode="plain"), wanted.config.model_copy(update={"drafters": 0}))]


def _drafted(wanted: Wanted) -> list[System]:
    return wanted.ours("drafted")


def _colocated(wanted: Wanted) -> list[System]:
    one = replace(wanted, config=wanted.config.model_copy(update={"drafters": 1}))
    return one.ours("colocated", merged)


def _transformers(wanted: Wanted) -> list[System]:
    return [Transformers(wanted.config)]


def _vllm(wanted: Wanted) -> list[System]:
    return [VllmCpu(wanted.config, wanted.peers)]


def _vllm_ngram(wanted: Wanted) -> list[System]:
    return [VllmCpu(wanted.config, wanted.peers, "ngram")]


SYSTEMS: Final[Mapping[str, Callable[[Wanted], list[System]]]] = {
    "drafted": _drafted,
    "plain": _plain,
    "colocated": _colocated,
    "transformers": _transformers,
    "vllm-cpu": _vllm,
    "vllm-cpu-ngram": _vllm_ngram,
}


def systems(names: Sequence[str], wanted: Wanted) -> list[System]:
    """Those of these names, each once."""
    made: list[System] = []
    for name in dict.fromkeys(names):
        if name not in SYSTEMS:
            raise ConfigError(f"There is no system {name!r}{near(name, SYSTEMS)}")
        made += SYSTEMS[name](wanted)
    return made
