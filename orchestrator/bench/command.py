"""`orchestrator bench`: from flags to runs to a table, a file and pictures."""

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.table import Table

from orchestrator.bench.client import Asking
from orchestrator.bench.peers import PEERS, build
from orchestrator.bench.prompts import read
from orchestrator.bench.results import Run, Summary, as_json, record, summaries
from orchestrator.bench.session import Plan, machine, measure
from orchestrator.bench.systems import System, Wanted, systems
from orchestrator.bench.table import line, show, table, title
from orchestrator.commands.output import out, progress, say
from orchestrator.config import Config
from orchestrator.launch.threads import usable_cores
from orchestrator.models import resolve
from orchestrator.settings import ConfigError


class Figures(Protocol):
    """What a bench without prompts measured."""

    def as_json(self) -> Any:  # noqa: ANN401
        """For programs."""


FiguresT = TypeVar("FiguresT", bound=Figures)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What every system is asked, how often, and where each run is noted."""

    prompts: str
    count: int | None
    concurrencies: tuple[int, ...]
    runs: int
    asking: Asking
    log: Path | None

    def plan(self) -> Plan:
        """The same with the prompts themselves; a ConfigError where that cannot be."""
        prompts = read(self.prompts, self.count)
        if (most := max(self.concurrencies)) > len(prompts):
            raise ConfigError(f"--concurrency cannot be {most}: there are {len(prompts)} prompts")
        return Plan(
            prompts=prompts, asking=self.asking, concurrencies=self.concurrencies, runs=self.runs
        )


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is compared, and where the figures go."""

    compare: tuple[str, ...]
    methods: tuple[str, ...]
    planners: tuple[str, ...]
    overlaps: tuple[bool, ...] = ()
    json: Path | None = None
    plot: Path | None = None
    peers: Path | None = None

    def systems(self, config: Config) -> list[System]:
        """Ours with each method and planner, else with those of the configuration; then those beside it."""
        wanted = Wanted(
            config=config,
            methods=self.methods or (config.method,),
            planners=self.planners or (config.verifier.planner.name,),
            overlaps=self.overlaps,
            peers=self.peers,
        )
        return systems(("drafted", *self.compare), wanted)


def bench(asked: Asked, wish: Wish, config: Config) -> int:
    """Measure and tell; the exit code."""
    _check_places((asked.log, wish.json), wish.plot)
    done = _measured(asked, wish.systems(config), config)
    show(title(done), table(done), out)
    if wish.json:
        _write(wish.json, as_json(done))
    if wish.plot:
        from orchestrator.bench.plot import draw  # noqa: PLC0415  # an extra

        for path in draw(done, wish.plot):
            say(f"  {path}")
    return 0


def threads(asked: Asked, place: Path | None, config: Config) -> int:
    """Measure every setting of threads and tell; the exit code."""
    from orchestrator.bench import threads as policy  # noqa: PLC0415

    _check_places((asked.log, place))
    services = policy.services(config, policy.settings(usable_cores()))
    done = _measured(asked, services, config)
    show(title(done), policy.table(done), out)
    if place:
        _write(place, as_json(done))
    return 0


def mesh(rounds: int, mirrors: tuple[int, ...], place: Path | None) -> int:
    """Measure the mesh and tell; the exit code."""
    from orchestrator.bench import mesh as links  # noqa: PLC0415

    return _figures(lambda: links.measure(rounds, mirrors), links.tables, place)


def rtt(config: Config, methods: Sequence[str], trips: Sequence[float], **asked: Any) -> int:
    """Measure every method at every round-trip time, a row as it comes; the exit code."""
    from orchestrator.bench import rtt as measuring  # noqa: PLC0415

    say(f"  {machine()}")
    out.print(measuring.HEAD, markup=False, soft_wrap=True)
    for row in measuring.rows(config, methods, trips, **asked):
        out.print(row.line(), markup=False, soft_wrap=True)
    return 0


def kv(tokens: int, runs: int, place: Path | None) -> int:
    """Measure the channels of KV pages and tell; the exit code."""
    from orchestrator.bench import kv as pages  # noqa: PLC0415

    return _figures(lambda: pages.measure(tokens, runs), pages.tables, place)


def split(config: Config, chunks: Sequence[int], runs: int, place: Path | None, **load: int) -> int:
    """Measure a split service beside others and tell; the exit code."""
    from orchestrator.bench import split as beside  # noqa: PLC0415

    asked = beside.Load(**load)
    return _figures(lambda: beside.measure(config, chunks, asked, runs), beside.tables, place)


def burst(wish: Wish, prompts: str, place: Path | None, config: Config, **told: Any) -> int:
    """Tell the story of a crowd to the services that are compared; the exit code."""
    from orchestrator.bench import burst as crowd  # noqa: PLC0415

    story = crowd.Story(
        prompts=read(prompts),
        long=Asking(max_tokens=told.pop("long"), ignore_eos=True),
        short=Asking(max_tokens=told.pop("short"), ignore_eos=True),
        **told,
    )
    compared = wish.systems(config)

    def taken() -> crowd.Figures:
        _fetch(config)
        return crowd.measure(compared, story)

    return _figures(taken, crowd.tables, place)


def _figures(
    taken: Callable[[], FiguresT],
    tables: Callable[[FiguresT], Iterator[tuple[str, Table]]],
    place: Path | None,
) -> int:
    """Measure, once it is known that the figures can be written; then tell them."""
    _check_places((place,))
    say(f"  {machine()}")
    figures = taken()
    for heading, made in tables(figures):
        show(heading, made, out)
    if place:
        _write(place, figures.as_json())
    return 0


def peers(root: Path | None) -> int:
    """Build the environment of every peer; the exit code."""
    for peer in PEERS.values():
        say(
            f"  {peer.package}: building, this takes minutes; left out: {', '.join(sorted(peer.skipped))}"
        )
        out.print(str(build(peer, root)), markup=False, soft_wrap=True)
    return 0


def _measured(asked: Asked, compared: Sequence[System], config: Config) -> list[Summary]:
    """All runs, each of them told as it comes."""
    plan = asked.plan()
    _fetch(config)
    names = ", ".join(str(each.label) for each in compared)
    say(f"  {machine()}; {len(plan.prompts)} prompts; {names}")

    def heard(run: Run) -> None:
        say(f"  {line(run)}")
        if asked.log:
            with asked.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record(run)) + "\n")

    for number in (signal.SIGTERM, signal.SIGHUP):  # as a Ctrl-C: whatever was started is ended
        signal.signal(number, signal.default_int_handler)
    return summaries(measure(plan, compared, heard), asked.prompts)


def _fetch(config: Config) -> None:
    """The target is here before anything is measured, and it is shown how far it is."""
    with progress() as report:
        resolve(config.target, report)


def _write(place: Path, figures: object) -> None:
    place.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _check_places(files: Iterable[Path | None], pictures: Path | None = None) -> None:
    """What would be missed only after an hour is looked at now."""
    for path in filter(None, files):
        if not path.parent.is_dir():
            raise ConfigError(f"{path} cannot be written: there is no folder {path.parent}")
    if pictures and find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib: pip install 'draftmesh[bench]'")
