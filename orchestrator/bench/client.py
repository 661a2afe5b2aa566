"""The one client that drives every system: OpenAI's streaming chat, so many requests at once, each prompt once."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx

from orchestrator.bench.errors import BenchError
from orchestrator.bench.prompts import Prompt
from orchestrator.commands.stream import StreamError, events

SILENCE: Final = 300.0
"""Seconds without a word after which a system is taken to be stuck; it may serve one request at a time."""


CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What every request of a run says beside its prompt."""

    max_tokens: int = 64
    temperature: float = 0.0
    ignore_eos: bool = False

    def body(self, prompt: Prompt, seed: int) -> dict[str, Any]:
        said: dict[str, Any] = {
            "messages": prompt.messages,
            "max_tokens": prompt.max_tokens or self.max_tokens,
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.temperature:
            said["seed"] = seed
        if self.ignore_eos:
            said["ignore_eos"] = True
        return said


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: when its text came, in seconds since it was asked for, and what its last chunk said of drafts."""

    prompt: str
    text: str
    tokens: int
    first: float
    last: float
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def pace(self) -> float | None:
        """Seconds for an output token after the first; None where no more than one came."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else None


def drive(
    url: str, prompts: Sequence[Prompt], concurrency: int, asking: Asking
) -> tuple[list[Answer], float]:
    """Ask everything, `concurrency` at once, the next as soon as one is answered; and the seconds that took."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=concurrency)
    threads = ThreadPoolExecutor(concurrency)
    with httpx.Client(base_url=url, timeout=SILENCE, limits=limits) as client:
        one = partial(ask, client, asking)
        begun = time.perf_counter()
        try:
            answers = list(threads.map(one, prompts, range(len(prompts))))
        finally:
            # Whoever fails does not wait for the others: their answers end with the system.
            threads.shutdown(wait=False, cancel_futures=True)
        return answers, time.perf_counter() - begun


def ask(client: httpx.Client, asking: Asking, prompt: Prompt, seed: int = 0) -> Answer:
    """Stream one answer to its end; anything less is a BenchError."""
    try:
        return _stream(client, prompt.id, asking.body(prompt, seed))
    except (httpx.HTTPError, StreamError, KeyError, TypeError, ValueError) as error:
        text = str(error) or type(error).__name__
        raise BenchError(f"{client.base_url} did not answer {prompt.id}: {text}") from error


def pieces(
    client: httpx.Client, body: dict[str, Any], door: str = CHAT
) -> Iterator[tuple[float, int]]:
    """When each piece of one of our answers came, and how many tokens it has; a BenchError if it breaks off."""
    said = body | {"stream": True, "return_token_ids": True}
    try:
        with client.stream("POST", door, json=said) as response:
            if response.is_error:
                raise StreamError(f"status {response.status_code}, {response.read().decode()}")
            for event in events(response.iter_lines()):
                if tokens := sum(len(each.get("token_ids") or ()) for each in event["choices"]):
                    yield time.perf_counter(), tokens
    except (httpx.HTTPError, StreamError, KeyError, TypeError, ValueError) as error:
        raise BenchError(f"{client.base_url} did not answer: {error}") from error


def _stream(client: httpx.Client, name: str, body: dict[str, Any]) -> Answer:
    text, tokens, first, last = "", 0, None, 0.0
    counts = {"rounds": 0, "drafted": 0, "accepted": 0}
    begun = time.perf_counter()
    with client.stream("POST", CHAT, json=body) as response:
        if response.is_error:
            raise StreamError(f"status {response.status_code}, {response.read().decode()}")
        for event in events(response.iter_lines()):
            for choice in event["choices"]:
                if piece := choice["delta"].get("content"):
                    last = time.perf_counter() - begun
                    first = last if first is None else first
                    text += piece
                counts |= choice.get("draftmesh") or {}
            if usage := event.get("usage"):
                tokens = usage["completion_tokens"]
    if not tokens:
        raise StreamError("it did not say how many tokens the answer has")
    if first is None:  # an answer may be empty: its end is all that came
        first = last = time.perf_counter() - begun
    return Answer(prompt=name, text=text, tokens=tokens, first=first, last=last, **counts)
