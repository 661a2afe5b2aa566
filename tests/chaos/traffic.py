"""Streams that never end: visitors who ask again and again, and check every token."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

TIMEOUT: Final = 60.0
"""Seconds without a token after which a stream is lost."""


@dataclass(frozen=True)
class Question:
    """A prompt in token ids, and the only right answer to it."""

    prompt: Sequence[int]
    answer: Sequence[int]


@dataclass
class Record:
    """What the visitors saw."""

    tokens: int = 0
    answers: int = 0
    errors: int = 0
    """Streams that ended with an error, which said so."""
    faults: list[str] = field(default_factory=list)
    """What must never be: a wrong token, a stream cut without a word, a wait beyond all bounds."""
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """(when, seconds) between two pieces of one stream."""


class Traffic:
    """Visitors in one event loop; whoever makes faults waits for their tokens instead of for time."""

    def __init__(self, url: str, questions: Sequence[Question], timeout: float = TIMEOUT) -> None:
        self.record = Record()
        self._url = url
        self._timeout = timeout
        self._questions = questions
        self._moved = asyncio.Condition()
        self._over = False

    async def tokens(self, count: int, errors: float = float("inf")) -> None:
        """Return when so many more tokens have come, or so many errors, or a stream has gone wrong."""
        record = self.record
        wanted, most = record.tokens + count, record.errors + errors
        async with self._moved:
            await self._moved.wait_for(
                lambda: record.tokens >= wanted or record.errors >= most or record.faults
            )

    def stop(self) -> None:
        """Visitors leave after their present answer."""
        self._over = True

    async def visit(self, number: int) -> None:
        """One visitor."""
        limits = httpx.Timeout(self._timeout)
        async with httpx.AsyncClient(timeout=limits) as client:
            while not self._over:
                question = self._questions[number % len(self._questions)]
                number += 1
                try:
                    await self._ask(client, question)
                except httpx.HTTPError as error:
                    self.record.faults.append(f"the connection broke: {error!r}")
                async with self._moved:
                    self._moved.notify_all()

    async def _ask(self, client: httpx.AsyncClient, question: Question) -> None:
        body = {
            "prompt": list(question.prompt),
            "max_tokens": len(question.answer),
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        heard: list[int] = []
        last = time.monotonic()
        async with client.stream("POST", f"{self._url}/v1/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                self.record.errors += 1
                await asyncio.sleep(
                    0.05
                )  # nobody serves: not a wait for anything, but no storm either
                return
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    self.record.errors += 1
                    return
                now = time.monotonic()
                self.record.gaps.append((now, now - last))
                last = now
                for choice in event["choices"]:
                    heard += choice.get("token_ids") or ()
                await self._compare(question, heard)
        if heard != list(question.answer):
            self.record.faults.append(
                f"{len(heard)} tokens of {len(question.answer)}: {heard[-5:]}"
            )
        self.record.answers += 1

    async def _compare(self, question: Question, heard: list[int]) -> None:
        if heard != list(question.answer[: len(heard)]):
            self.record.faults.append(f"wrong at {len(heard)}: {heard[-5:]}")
        async with self._moved:
            self.record.tokens += 1
            self._moved.notify_all()
