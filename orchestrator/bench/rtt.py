"""Speed and acceptance against the round-trip time between verifier and drafter: one service, a relay between the two.

The roles are started as the launcher starts them; the verifier is told the relay's address for the drafter's. Plain
decoding is such a service with that address taken off its list, measured beside every row. Every run has a service of
its own.
"""

import selectors
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from orchestrator.bench.errors import BenchError
from orchestrator.bench.prompts import WARM_UP, Prompt, read
from orchestrator.bench.relay import Relay
from orchestrator.commands.service import fetched
from orchestrator.config import Config
from orchestrator.launch.plan import children
from orchestrator.launch.process import Process
from orchestrator.launch.threads import usable_cores

TRIPS: Final = (0.0, 0.0002, 0.001, 0.005, 0.02, 0.05)
"""Seconds of a round trip, beside what the machine itself needs."""
START: Final = 300.0
SILENCE: Final = 15.0
"""Seconds: links are to outlive what else the machine does; faults are measured elsewhere."""


@dataclass(frozen=True)
class Row:
    """One method at one round-trip time; speeds are output tokens a second, `plain` was measured beside it."""

    method: str
    seconds: float
    speed: float
    plain: float
    drafted: int
    accepted: int
    rounds: int

    @property
    def gain(self) -> float:
        return self.speed / self.plain

    def line(self) -> str:
        share = self.accepted / self.drafted if self.drafted else 0.0
        each = self.accepted / self.rounds if self.rounds else 0.0
        return (
            f"| {self.method} | {self.seconds * 1e3:g} | {self.plain:.1f} | {self.speed:.1f} "
            f"| {self.gain:.2f} | {share:.2f} | {each:.2f} |"
        )


HEAD: Final = (
    "| method | round trip, ms | plain, tok/s | tok/s | times plain | accepted of drafted | accepted a round |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def ready(process: Process, name: str) -> dict[str, Any]:
    """What a child says when it is ready; a BenchError if it ends first, or takes too long."""
    deadline = time.monotonic() + START
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            lines = process.read()
            if lines is None:
                raise BenchError(f"the {name} ended before it was ready")
            for line in lines:
                if line["state"] == "ready":
                    return line
    raise BenchError(f"the {name} was not ready within {START:g} s")


class Stand:
    """A front door, a verifier and a drafter, with a relay before the drafter."""

    def __init__(self, config: Config, folder: Path, silence: float = SILENCE) -> None:
        patient = config.link.model_copy(update={"silence": silence})
        update = {"drafters": 1, "verifiers": 1, "port": 0, "link": patient}
        one, target, draft = fetched(config.model_copy(update=update), lambda *_: None)
        self._processes = {
            child.role: Process(child, folder / f"{child.name}.log")
            for child in children(one, target, draft, usable_cores())
        }
        drafter, verifier = (
            ready(self._processes[role], role)["address"] for role in ("drafter", "verifier")
        )
        host, _, port = drafter.removeprefix("tcp://").rpartition(":")
        self.relay = Relay(host, int(port))
        self._processes["front"].tell({"peers": [verifier]})
        self.url: str = ready(self._processes["front"], "front")["http"]
        self.drafts(on=True)

    def drafts(self, *, on: bool) -> None:
        """Give the verifier its drafter, or take it away; returns when it is so."""
        self._processes["verifier"].tell({"peers": [self.relay.address] if on else []})
        deadline, pause = time.monotonic() + 60.0, threading.Event()
        while time.monotonic() < deadline:
            answer = httpx.get(f"{self.url}/ready").json()
            if answer["verifiers"] and (answer["drafters"] > 0) is on:
                return
            pause.wait(0.1)  # reports come once a second
        raise BenchError("the drafter did not come, or did not go")

    def ask(self, prompts: Sequence[Prompt], max_tokens: int) -> tuple[float, dict[str, int]]:
        """Tokens a second over all prompts, one after the other, and what was drafted and accepted."""
        counted = {"drafted": 0, "accepted": 0, "rounds": 0}
        tokens, began = 0, time.perf_counter()
        with httpx.Client(timeout=600.0) as client:
            for prompt in prompts:
                body = {
                    "messages": prompt.messages,
                    "max_tokens": max_tokens,
                    "temperature": 0,
                    "ignore_eos": True,
                }
                answer = client.post(
                    f"{self.url}/v1/chat/completions", json=body
                ).raise_for_status()
                said = answer.json()
                tokens += said["usage"]["completion_tokens"]
                spent = said["choices"][0].get("draftmesh") or {}
                for name in counted:
                    counted[name] += spent.get(name, 0)
        return tokens / (time.perf_counter() - began), counted

    def close(self) -> None:
        self.relay.close()
        for process in self._processes.values():
            process.kill()
            process.reap()


@contextmanager
def stand(config: Config) -> Iterator[Stand]:
    """A stand whose processes end with it."""
    with tempfile.TemporaryDirectory() as folder:
        made = Stand(config, Path(folder))
        try:
            yield made
        finally:
            made.close()


def rows(
    config: Config, methods: Sequence[str], trips: Sequence[float], *, prompts: str, count: int,
    max_tokens: int, runs: int,
) -> Iterator[Row]:  # fmt: skip
    """A row for each method and round-trip time, medians of `runs`."""
    asked = read(prompts, count)
    for method in methods:
        own = config.model_copy(update={"method": method})
        for seconds in trips:
            plain, drafted = [], []
            counted: dict[str, int] = {}
            for _ in range(runs):
                plain.append(_run(own, seconds, asked, max_tokens, drafts=False)[0])
                speed, counted = _run(own, seconds, asked, max_tokens, drafts=True)
                drafted.append(speed)
            yield Row(method, seconds, median(drafted), median(plain), **counted)


def _run(
    config: Config, seconds: float, asked: Sequence[Prompt], max_tokens: int, *, drafts: bool
) -> tuple[float, dict[str, int]]:
    """One run on a stand of its own: a used one has prompts in its cache and answers in its drafter's store."""
    with stand(config) as made:
        made.relay.wire.delay = seconds / 2
        made.drafts(on=drafts)
        made.ask(WARM_UP[:1], max_tokens)
        return made.ask(asked, max_tokens)
