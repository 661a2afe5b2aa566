"""64 streams at once for two minutes: no error, every text right, and no process grows."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from tests.e2e.service import Service, until, up
from tests.models import write_byte_llama

STREAMS: Final = 64
SECONDS: Final = 120.0
PROMPTS: Final = [f"{word} and {word} and {word} again" for word in ("one", "two", "three", "four")]


def body(number: int) -> dict[str, Any]:
    """One of many kinds of request; the same number is the same request."""
    rng = random.Random(number)
    asked: dict[str, Any] = {
        "prompt": PROMPTS[number % 4],
        "max_tokens": rng.randrange(1, 60),
        "temperature": rng.choice([0, 0.8]),
        "seed": number % 4,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    asked |= rng.choice([{}, {"logprobs": 3}, {"frequency_penalty": 0.5}, {"stop": "e"}, {"n": 2}])
    return asked


async def ask(client: httpx.AsyncClient, url: str, number: int) -> str:
    """What a stream said, but for names and times."""
    heard: list[tuple[int, int]] = []
    async with client.stream("POST", f"{url}/v1/completions", json=body(number)) as answer:
        assert answer.status_code == httpx.codes.OK, await answer.aread()
        async for line in answer.aiter_lines():
            if "{" in line:
                event = json.loads(line.removeprefix("data: "))
                assert "error" not in event, event
                heard += [
                    (choice["index"], token)
                    for choice in event["choices"]
                    for token in choice.get("token_ids", ())
                ]
            elif line == "data: [DONE]":
                heard.append((-1, 0))
    assert heard[-1] == (-1, 0), "it did not come to its end"
    return str(sorted(heard, key=lambda pair: pair[0]))


def memory(service: Service) -> dict[str, float]:
    return {
        name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in service.pids.items()
    }


@pytest.mark.full
@pytest.mark.timeout(400)
def test_many_streams_for_a_long_time(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_byte_llama(model)
    flags = ("--drafters", "2", "--dtype", "float32", "--draft-length", "4")
    with up(str(model), tmp_path, *flags) as service:
        texts: dict[int, str] = {}
        sizes: list[dict[str, float]] = []
        begun = time.monotonic()

        async def visitor(client: httpx.AsyncClient, first: int) -> int:
            number, count = first, 0
            while time.monotonic() - begun < SECONDS:
                kind = number % 40
                text = await ask(client, service.url, kind)
                assert texts.setdefault(kind, text) == text
                number += STREAMS
                count += 1
                if first == 0 and time.monotonic() - begun > SECONDS * (len(sizes) + 1) / 8:
                    sizes.append(memory(service))
            return count

        async def go() -> int:
            limits = httpx.Limits(max_connections=STREAMS)
            async with httpx.AsyncClient(timeout=60, limits=limits) as client:
                return sum(await asyncio.gather(*(visitor(client, i) for i in range(STREAMS))))

        assert asyncio.run(go()) > STREAMS
        until(lambda: httpx.get(f"{service.url}/ready").json()["in_flight"] == 0, "all is over")
        first, last = sizes[1], memory(service)
        for name, size in first.items():
            assert last[name] < size * 1.1 + 8, (name, size, last[name])
