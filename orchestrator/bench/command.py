"""`orchestrator bench`: from flags to runs to a table, a file and pictures."""

import json
from dataclasses import dataclass
from pathlib import Path

from orchestrator.bench.client import Asking
from orchestrator.bench.errors import BenchError
from orchestrator.bench.peers import PEERS, build
from orchestrator.bench.prompts import read
from orchestrator.bench.results import Run, as_json, record, summaries
from orchestrator.bench.session import Plan, machine, measure
from orchestrator.bench.systems import Wanted, systems
from orchestrator.bench.table import line, show, table
from orchestrator.commands.output import FAILED, complain, out, say
from orchestrator.config import Config
from orchestrator.models import resolve
from orchestrator.settings import ConfigError


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user wants measured, and where the figures go."""

    prompts: str
    count: int | None
    concurrencies: tuple[int, ...]
    compare: tuple[str, ...]
    methods: tuple[str, ...]
    planners: tuple[str, ...]
    runs: int
    asking: Asking
    json: Path | None
    log: Path | None
    plot: Path | None
    peers: Path | None


def bench(wish: Wish, config: Config) -> int:
    """Measure and tell; the exit code."""
    try:
        return _bench(wish, config)
    except BenchError as error:
        complain(str(error))
        return FAILED


def _bench(wish: Wish, config: Config) -> int:
    prompts = read(wish.prompts, wish.count)
    if (most := max(wish.concurrencies)) > len(prompts):
        raise ConfigError(f"--concurrency cannot be {most}: there are {len(prompts)} prompts")
    _check_places(wish)
    methods = wish.methods or (config.method,)
    planners = wish.planners or (config.verifier.planner.name,)
    wanted = Wanted(config=config, methods=methods, planners=planners, peers=wish.peers)
    compared = systems(("drafted", *wish.compare), wanted)
    resolve(config.target, lambda *_: None)
    plan = Plan(
        prompts=prompts, asking=wish.asking, concurrencies=wish.concurrencies, runs=wish.runs
    )
    say(f"  {machine()}; {len(prompts)} prompts, {', '.join(str(each.label) for each in compared)}")

    def heard(run: Run) -> None:
        say(f"  {line(run)}")
        if wish.log:
            with wish.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record(run)) + "\n")

    done = summaries(measure(plan, compared, heard), wish.prompts)
    show(table(done, wish.prompts), out)
    if wish.json:
        wish.json.write_text(json.dumps(as_json(done), indent=1) + "\n", encoding="utf-8")
    if wish.plot:
        from orchestrator.bench.plot import draw  # noqa: PLC0415  # an extra

        for path in draw(done, wish.plot):
            say(f"  {path}")
    return 0


def _check_places(wish: Wish) -> None:
    """What would be missed only after an hour is looked at now."""
    for path in filter(None, (wish.json, wish.log)):
        if not path.parent.is_dir():
            raise ConfigError(f"{path} cannot be written: there is no folder {path.parent}")
    if wish.plot:
        try:
            import matplotlib  # noqa: PLC0415, F401
        except ImportError as error:
            raise ConfigError("--plot needs matplotlib: pip install 'draftmesh[bench]'") from error


def peers(root: Path | None) -> int:
    """Build the environment of every peer; the exit code."""
    try:
        for peer in PEERS.values():
            say(f"  {peer.package}: building, this takes minutes")
            out.print(str(build(peer, root)), markup=False, soft_wrap=True)
    except BenchError as error:
        complain(str(error))
        return FAILED
    return 0
