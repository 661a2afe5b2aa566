"""Rounds of faults over steady traffic."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import torch
import transformers
import yaml

from orchestrator.models import resolve
from tests.chaos.traffic import Question, Record, Traffic
from tests.e2e.service import Service, up
from tests.exact.oracle import GAP, greedy
from tests.models import write_byte_llama

VISITORS: Final = 4
DRAFTED: Final = {"verifier": {"planner": {"name": "fixed"}}}
"""So small a target is too fast for drafts to pay: planners that weigh them would not ask for any."""
BETWEEN: Final = (10, 400)
"""Pieces of streams between two faults."""


STALL: Final = 0.25
"""Seconds over a plain step that a stream may wait for its next piece, whatever happens to drafters."""


@dataclass(frozen=True)
class Outcome:
    """What a run of rounds came to; memory in MiB by process, before and after."""

    record: Record
    faults_made: dict[str, int]
    plain_step: float
    """Seconds between two pieces of a stream before any fault, at the most in 99 of 100 cases."""
    stall: float
    """How much longer than that a stream waited for its next piece at the most, once there were faults."""
    seconds: float
    before: dict[str, float]
    after: dict[str, float]


def _tiny(folder: Path) -> tuple[str, Any]:
    return str(folder), write_byte_llama(folder)


def _default(_folder: Path) -> tuple[str, Any]:
    found = resolve(DEFAULT)
    model = transformers.AutoModelForCausalLM.from_pretrained(found, dtype=torch.float32)
    return str(found), model.eval()


DEFAULT: Final = "smollm2-135m"
TARGETS: Final[Mapping[str, tuple[Callable[[Path], tuple[str, Any]], int]]] = {
    "tiny": (_tiny, 120),
    "default": (_default, 48),
}
"""What is asked: how a folder, or a name, becomes a target and its oracle, and tokens of an answer."""


def questions(folder: Path, count: int = 8, target: str = "tiny") -> tuple[str, list[Question]]:
    """A target, and prompts whose answers `transformers` is sure of, with these answers."""
    make, tokens = TARGETS[target]
    name, model = make(folder)
    model.generation_config.eos_token_id = None
    rng = random.Random(3)
    found: list[Question] = []
    while len(found) < count:
        words = [[rng.randrange(5, 250) for _ in range(6)] for _ in range(3)]
        prompt = [token for _ in range(5) for token in rng.choice(words)]
        right = greedy(model, prompt, tokens)
        if right.gap > GAP:
            found.append(Question(prompt, right.tokens))
    return name, found


def run(
    folder: Path, rounds: int, seed: int, victims: str = "drafter", target: str = "tiny"
) -> Outcome:
    """Kill, freeze and thaw processes whose names begin with `victims`, at moments that `seed` chooses."""
    name, asked = questions(folder / "model", target=target)
    flags = ("--drafters", "2", "--dtype", "float32", "--draft-length", "4")
    (folder / "draftmesh.yaml").write_text(yaml.safe_dump(DRAFTED))
    with up(name, folder, *flags) as service:
        return asyncio.run(_rounds(service, asked, rounds, random.Random(seed), victims))


async def _rounds(
    service: Service, asked: Sequence[Question], rounds: int, rng: random.Random, victims: str
) -> Outcome:
    traffic = Traffic(service.url, asked)
    visitors = [asyncio.create_task(traffic.visit(number)) for number in range(VISITORS)]
    await traffic.tokens(500)
    gaps = traffic.record.gaps
    warm = sorted(seconds for _, seconds in gaps[100:])
    plain_step, calm = warm[int(len(warm) * 0.99)], len(gaps)
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
    stall = max(wait for _, wait in gaps[calm:]) - plain_step
    return Outcome(traffic.record, made, plain_step, stall, seconds, before, _memory(service))


def _memory(service: Service) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for name, pid in service.pids.items():
        with suppress(psutil.NoSuchProcess):
            sizes[name] = psutil.Process(pid).memory_info().rss / 2**20
    return sizes
