"""200 times somebody leaves in the middle: clients, prefill nodes, verifiers. No page is kept, no token is wrong, and
the next request is served.
"""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest
import yaml

from tests.e2e import numbers
from tests.e2e.service import Service, until, up
from tests.exact.oracle import GAP, greedy
from tests.models import write_byte_llama

EVENTS: Final = 200
KILLS: Final = {"prefill": 16, "verifier": 10}
OUTPUT: Final = 12
LENGTHS: Final = (31, 200, 700, 900)
"""Some are computed in one forward, some in a dozen."""
VISITORS: Final = 3
Question = tuple[list[int], list[int]]
"""A prompt, and the only right answer to it."""


def questions(model: Any, count: int) -> list[Question]:  # noqa: ANN401
    """More than the caches hold: most of them travel."""
    model.generation_config.eos_token_id = None
    rng = random.Random(5)
    found: list[Question] = []
    while len(found) < count:
        prompt = [rng.randrange(5, 250) for _ in range(LENGTHS[len(found) % len(LENGTHS)])]
        right = greedy(model, prompt, OUTPUT)
        if right.gap > GAP:
            found.append((prompt, right.tokens))
    return found


class Storm:
    """Visitors who may leave at any moment, and somebody who kills; what happened, and what must never be."""

    def __init__(self, service: Service, asked: Sequence[Question]) -> None:
        self.service = service
        self.asked = asked
        self.rng = random.Random(9)
        self.happened: Counter[str] = Counter()
        self.answered = 0
        self.wrong: list[str] = []

    @property
    def events(self) -> int:
        return sum(self.happened.values())

    async def visit(self) -> None:
        """Ask, and leave before, during or after the answer."""
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            while self.events < EVENTS:
                prompt, right = self.rng.choice(self.asked)
                heard: list[int] = []
                patience = self.rng.choice((0.02, 0.1, 0.5, 2.0, 30.0, 30.0))
                try:
                    await asyncio.wait_for(self._ask(client, prompt, heard), patience)
                except TimeoutError:
                    self.happened["client"] += 1
                if heard != right[: len(heard)]:
                    self.wrong.append(f"{len(prompt)} tokens: {heard}, not {right}")
                self._perhaps_kill()

    async def _ask(self, client: httpx.AsyncClient, prompt: list[int], heard: list[int]) -> None:
        body = {
            "prompt": prompt,
            "max_tokens": OUTPUT,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        url = f"{self.service.url}/v1/completions"
        async with client.stream("POST", url, json=body) as response:
            if response.status_code != httpx.codes.OK:
                return  # nobody serves: it says so
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    return  # its verifier is gone: it says so
                for choice in event["choices"]:
                    heard += choice.get("token_ids") or ()
        self.answered += 1
        if len(heard) != OUTPUT:
            self.wrong.append(f"an answer of {len(heard)} tokens ended as if it were whole")

    def _perhaps_kill(self) -> None:
        """Kills are spread over all events."""
        due = [role for role, most in KILLS.items() if self.happened[role] < most]
        kills = self.events - self.happened["client"]
        if due and self.events >= EVENTS / sum(KILLS.values()) * kills:
            self._kill(self.rng.choice(due))

    def _kill(self, role: str) -> None:
        pids = [
            pid
            for name, pid in self.service.pids.items()
            if name.startswith(role) and pid and psutil.pid_exists(pid)
        ]
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(pids), signal.SIGKILL)
                self.happened[role] += 1

    async def run(self) -> None:
        await asyncio.gather(*(self.visit() for _ in range(VISITORS)))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_whoever_leaves_leaves_nothing_behind(tmp_path: Path) -> None:
    model = write_byte_llama(tmp_path / "target")
    asked = questions(model, 64)
    handover = {"least": 16}
    part = {"kv_bytes": 4 << 20, "handover": handover, "scheduler": {"max_chunk": 64}}
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump({"verifier": part}))
    flags = ("--prefill", "2", "--verifiers", "2", "--drafters", "1", "--dtype", "float32")
    with up(str(tmp_path / "target"), tmp_path, *flags) as service:
        storm = Storm(service, asked)
        asyncio.run(storm.run())
        assert storm.wrong == []
        assert storm.answered > 20
        for role, most in KILLS.items():  # who was killed often is started again after a while only
            assert storm.happened[role] >= most / 2
        until(lambda: served(service, asked), "all of them are served again, and right")
        until(lambda: level(service), "every page is free everywhere")


def served(service: Service, asked: Sequence[Question]) -> bool:
    """Whether all nodes are back; then every answer must be right."""
    nodes = numbers.read(service.url)
    roles = Counter(role for role, _ in nodes)
    if not service.ready() or roles["verifier"] < 2 or roles["prefill"] < 2:
        return False
    for prompt, right in asked[: len(LENGTHS)]:
        body = {
            "prompt": prompt,
            "max_tokens": OUTPUT,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        answer = httpx.post(f"{service.url}/v1/completions", json=body, timeout=60)
        assert answer.raise_for_status().json()["choices"][0]["token_ids"] == right
    return True


def level(service: Service) -> bool:
    """Whether nobody holds anything."""
    for (role, _), facts in numbers.read(service.url).items():
        if role in {"verifier", "prefill"}:
            if facts.gauges["pages_free"] != facts.gauges["pages"]:
                return False
            if role == "prefill" and facts.gauges["prompts"] != {"": 0}:
                return False
    return True
