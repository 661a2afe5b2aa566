"""Rounds of faults over steady traffic."""

import asyncio
import gc
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

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


SIGNALS: Final = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}

TICK: Final = 0.02
"""Seconds between two looks at the clock, which tell how long this process was kept from running."""


class Blow(NamedTuple):
    """A fault that was made."""

    when: float
    fault: str
    victim: str


@dataclass(frozen=True)
class Outcome:
    """What a run of rounds came to; memory in MiB by process, before and after."""

    record: Record
    blows: Sequence[Blow]
    late: float
    """Seconds that a timer of the watching process came late at the most: what this machine itself held up."""
    plain_step: float
    """Seconds between two pieces of a stream before any fault, at the most in 99 of 100 cases."""
    stall: float
    """How much longer than that a stream waited for its next piece at the most, once there were faults."""
    seconds: float
    before: dict[str, float]
    after: dict[str, float]

    @property
    def faults_made(self) -> Counter[str]:
        return Counter(blow.fault for blow in self.blows)

    def behind(self, when: float) -> str:
        """What had been done last at this time, and how long before it."""
        earlier = [blow for blow in self.blows if blow.when <= when]
        if not earlier:
            return "before any fault"
        return f"{when - earlier[-1].when:.2f} s after {earlier[-1].fault} of {earlier[-1].victim}"


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
    # What torch and transformers keep is looked through for garbage now and never again: that holds up this process,
    # and so the clock by which streams are judged.
    gc.collect()
    gc.freeze()
    try:
        with up(name, folder, *flags) as service:
            return asyncio.run(_rounds(service, asked, rounds, random.Random(seed), victims))
    finally:
        gc.unfreeze()


async def _rounds(
    service: Service, asked: Sequence[Question], rounds: int, rng: random.Random, victims: str
) -> Outcome:
    traffic = Traffic(service.url, asked)
    visitors = [asyncio.create_task(traffic.visit(number)) for number in range(VISITORS)]
    await traffic.tokens(500)
    gaps = traffic.record.gaps
    warm = sorted(seconds for _, seconds in gaps[100:])
    plain_step, calm = warm[int(len(warm) * 0.99)], len(gaps)
    before, begun = _memory(service), time.monotonic()
    blows: list[Blow] = []
    late = [0.0]
    watch = asyncio.create_task(_lateness(late))
    while len(blows) < rounds and not traffic.record.faults:
        fault = rng.choice(list(SIGNALS))
        living = [
            (name, pid)
            for name, pid in service.pids.items()
            if name.startswith(victims) and pid and psutil.pid_exists(pid)
        ]
        if living:
            name, pid = rng.choice(living)
            blows.append(Blow(time.monotonic(), fault, name))
            with suppress(ProcessLookupError):
                os.kill(pid, SIGNALS[fault])
            await traffic.tokens(rng.randint(*BETWEEN), errors=VISITORS)  # all know of it
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        await traffic.tokens(rng.randint(*BETWEEN))
    traffic.stop()
    await asyncio.gather(*visitors)
    watch.cancel()
    seconds = time.monotonic() - begun
    stall = max(wait for _, wait in gaps[calm:]) - plain_step
    return Outcome(
        traffic.record,
        blows,
        max(late),
        plain_step,
        stall,
        seconds,
        before,
        _memory(service),
    )


async def _lateness(late: list[float]) -> None:
    """How much later than asked for a timer rings, again and again."""
    while True:
        due = time.monotonic() + TICK
        await asyncio.sleep(TICK)
        late.append(time.monotonic() - due)


def _memory(service: Service) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for name, pid in service.pids.items():
        with suppress(psutil.NoSuchProcess):
            sizes[name] = psutil.Process(pid).memory_info().rss / 2**20
    return sizes
