"""Soak: `python -m tests.chaos.soak --minutes 30`. Mixed traffic with faults; at the end all is as it was at the start.

Drafters are killed and frozen while visitors ask, come and leave; a verifier never is, so that its pages can be
compared. Memory, descriptors and threads are those of front door and verifier, after a rest before and behind it all.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import psutil
import yaml

from tests.chaos.run import DRAFTED, VISITORS, questions
from tests.chaos.traffic import Question, Record, Traffic
from tests.e2e import numbers
from tests.e2e.service import Service, up

LASTING: Final = ("front-0", "verifier-0")
WARM: Final = 600
"""Pieces of streams before anything is measured: caches fill, threads start."""
PATIENT: Final = {"link": {"silence": 15.0}}
TIMEOUT: Final = 300.0
"""A machine that does other things, too, stops processes for seconds; what is looked for here is what stays."""
GROWTH: Final = 0.1
SLACK: Final = 16
"""Memory may grow by a tenth and so many MiB: the prefix cache of the front door remembers what was asked."""


@dataclass(frozen=True)
class Footprint:
    """What a service holds while nobody asks."""

    memory: dict[str, float]  # MiB by process
    descriptors: dict[str, int]
    threads: dict[str, int]
    pids: dict[str, int]
    pages: float  # free, of the verifier and of drafters that have some
    mirrors: float

    def grown(self, later: "Footprint") -> list[str]:
        """What is more than it was."""
        found = [
            f"{name}: {size:.0f} MiB, then {later.memory[name]:.0f}"
            for name, size in self.memory.items()
            if later.memory[name] > size * (1 + GROWTH) + SLACK
        ]
        for what in ("descriptors", "threads"):
            before, after = getattr(self, what), getattr(later, what)
            found += [
                f"{name}: {count} {what}, then {after[name]}"
                for name, count in before.items()
                if after[name] > count + 2
            ]
        found += [
            f"{name} was started again, which nobody meant"
            for name, pid in self.pids.items()
            if later.pids[name] != pid
        ]
        if (self.pages, self.mirrors) != (later.pages, later.mirrors):
            found.append(
                f"pages and mirrors {self.pages, self.mirrors}, then {later.pages, later.mirrors}"
            )
        return found


def footprint(service: Service) -> Footprint:
    processes = {name: psutil.Process(service.pids[name]) for name in LASTING}
    said = numbers.read(service.url).values()
    return Footprint(
        memory={name: each.memory_info().rss / 2**20 for name, each in processes.items()},
        descriptors={name: each.num_fds() for name, each in processes.items()},
        threads={name: each.num_threads() for name, each in processes.items()},
        pids={name: each.pid for name, each in processes.items()},
        pages=sum(sum(each.gauges.get("pages_free", {}).values()) for each in said),
        mirrors=sum(sum(each.gauges.get("mirrors", {}).values()) for each in said),
    )


async def _faults(service: Service, traffic: Traffic, until: float, rng: random.Random) -> int:
    """Kill, freeze and thaw drafters, and send visitors who leave in mid-answer."""
    made = 0
    while time.monotonic() < until and not traffic.record.faults:
        living = [
            pid
            for name, pid in service.pids.items()
            if name.startswith("drafter") and pid and psutil.pid_exists(pid)
        ]
        if living:
            made += 1
            pid, kind = rng.choice(living), rng.choice((signal.SIGKILL, signal.SIGSTOP))
            with suppress(ProcessLookupError):
                os.kill(pid, kind)
            await _leave(service)
            await traffic.tokens(rng.randint(50, 600), errors=VISITORS)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        await traffic.tokens(rng.randint(50, 600), errors=VISITORS)
    return made


async def _leave(service: Service) -> None:
    """Ask for much, hear the first of it, hang up."""
    body = {"prompt": "a b c", "max_tokens": 500, "stream": True, "ignore_eos": True}
    url = f"{service.url}/v1/completions"
    with suppress(httpx.HTTPError):
        async with (
            httpx.AsyncClient(timeout=30.0) as client,
            client.stream("POST", url, json=body) as answer,
        ):
            async for _ in answer.aiter_lines():
                break


async def soak(
    service: Service, asked: list[Question], seconds: float, rng: random.Random
) -> tuple[Record, int, Footprint, Footprint]:
    """Traffic and faults for so long; the footprint is taken while nobody asks."""
    rest = asyncio.Event()

    async def visited(traffic: Traffic, work: "asyncio.Future[int] | asyncio.Task[None]") -> object:
        visitors = [asyncio.create_task(traffic.visit(number)) for number in range(VISITORS)]
        done = await work
        traffic.stop()
        await asyncio.gather(*visitors)
        with suppress(TimeoutError):  # links that died are noticed, reports of what is over come in
            await asyncio.wait_for(rest.wait(), 20.0)
        return done

    warming = Traffic(service.url, asked, TIMEOUT)
    await visited(warming, asyncio.create_task(warming.tokens(WARM)))
    before = footprint(service)
    traffic = Traffic(service.url, asked, TIMEOUT)
    faults = asyncio.create_task(_faults(service, traffic, time.monotonic() + seconds, rng))
    made = await visited(traffic, faults)
    assert isinstance(made, int)
    return traffic.record, made, before, footprint(service)


def ends(service: Service) -> list[str]:
    """The last lines of the logs of those that are never killed."""
    assert service.state
    logs = [Path(service.state.logs) / f"{name}.log" for name in LASTING]
    return [f"{log.name}: {line}" for log in logs for line in log.read_text().splitlines()[-15:]]


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        (folder / "draftmesh.yaml").write_text(yaml.safe_dump(DRAFTED | PATIENT))
        target, asked = questions(folder / "model")
        flags = ("--drafters", "2", "--dtype", "float32", "--draft-length", "4")
        with up(target, folder, *flags) as service:
            rng, began = random.Random(given.seed), time.monotonic()
            record, made, before, after = asyncio.run(soak(service, asked, given.minutes * 60, rng))
            wrong = [*record.faults, *before.grown(after)]
            if wrong:
                wrong += ends(service)
    if record.errors:
        wrong.append(f"{record.errors} requests failed, and no verifier was touched")
    minutes = (time.monotonic() - began) / 60
    lines = [
        f"{minutes:.1f} minutes: {made} faults, {record.answers} answers, {record.tokens} pieces",
        f"before: {before}",
        f"after:  {after}",
        *(f"WRONG: {each}" for each in wrong),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
