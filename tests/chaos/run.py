"""Rounds of faults over steady traffic."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.chaos.traffic import Question, Record, Traffic
from tests.e2e.service import Service, up
from tests.exact.oracle import GAP, greedy
from tests.models import write_byte_llama

VISITORS: Final = 4
BETWEEN: Final = (10, 400)
"""Pieces of streams between two faults."""


@dataclass(frozen=True)
class Outcome:
    """What a run of rounds came to; memory in MiB by process, before and after."""

    record: Record
    faults_made: dict[str, int]
    plain_gap: float
    """The longest of the gaps before any fault."""
    seconds: float
    before: dict[str, float]
    after: dict[str, float]


def questions(folder: Path, count: int = 8, tokens: int = 120) -> list[Question]:
    """Prompts whose answers `transformers` is sure of, and these answers."""
    model = write_byte_llama(folder)
    model.generation_config.eos_token_id = None
    rng = random.Random(3)
    found: list[Question] = []
    while len(found) < count:
        words = [[rng.randrange(5, 250) for _ in range(6)] for _ in range(3)]
        prompt = [token for _ in range(5) for token in rng.choice(words)]
        right = greedy(model, prompt, tokens)
        if right.gap > GAP:
            found.append(Question(prompt, right.tokens))
    return found


def run(folder: Path, rounds: int, seed: int, victims: str = "drafter") -> Outcome:
    """Kill, freeze and thaw processes whose names begin with `victims`, at moments that `seed` chooses."""
    asked = questions(folder / "model")
    flags = ("--drafters", "2", "--dtype", "float32", "--draft-length", "4")
    with up(str(folder / "model"), folder, *flags) as service:
        return asyncio.run(_rounds(service, asked, rounds, random.Random(seed), victims))


async def _rounds(
    service: Service, asked: Sequence[Question], rounds: int, rng: random.Random, victims: str
) -> Outcome:
    traffic = Traffic(service.url, asked)
    visitors = [asyncio.create_task(traffic.visit(number)) for number in range(VISITORS)]
    await traffic.tokens(500)
    plain_gap = max(seconds for _, seconds in traffic.record.gaps[100:])
    before, begun, made = _memory(service), time.monotonic(), {"kill": 0, "freeze": 0}
    while sum(made.values()) < rounds and not traffic.record.faults:
        fault = rng.choice(list(made))
        living = [
            pid
            for name, pid in service.pids.items()
            if name.startswith(victims) and pid and psutil.pid_exists(pid)
        ]
        if living:
            made[fault] += 1
            pid = rng.choice(living)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
            await traffic.tokens(rng.randint(*BETWEEN), errors=VISITORS)  # all know of it
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        await traffic.tokens(rng.randint(*BETWEEN))
    traffic.stop()
    await asyncio.gather(*visitors)
    seconds = time.monotonic() - begun
    return Outcome(traffic.record, made, plain_gap, seconds, before, _memory(service))


def _memory(service: Service) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for name, pid in service.pids.items():
        with suppress(psutil.NoSuchProcess):
            sizes[name] = psutil.Process(pid).memory_info().rss / 2**20
    return sizes
