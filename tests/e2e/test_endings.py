"""Many requests that end in every possible way leave every pool of every process as it was (reported fault 3)."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.e2e import numbers
from tests.e2e.service import Service, until, up
from tests.models import write_byte_llama

MANY: Final = list(range(5, 250))
LEVELS: Final = ("pages_free", "mirrors", "running", "waiting", "in_flight")

Levels = Mapping[tuple[str, str], Mapping[str, float]]


def levels(service: Service) -> Levels:
    """What is held by whom."""
    return {
        node: {name: facts.gauges[name][""] for name in LEVELS if name in facts.gauges}
        | {"bound": sum(facts.gauges.get("bound", {}).values())}
        for node, facts in numbers.read(service.url).items()
    }


async def ask(client: httpx.AsyncClient, body: Mapping[str, Any], most: int = 10**6) -> str:
    """How a stream ended: its finish reason, its error, or that we left after so many events."""
    async with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        said = "nothing"
        async for line in answer.aiter_lines():
            if not most:
                return "left"
            most -= 1
            if "{" in line:
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    return str(event["error"]["code"])
                said = event["choices"][0]["finish_reason"] or said
        return said


async def leave(url: httpx.URL, body: Mapping[str, Any]) -> str:
    """Ask and go before anybody can have answered."""
    _, writer = await asyncio.open_connection(url.host, url.port)
    content = json.dumps(body)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write((head + content).encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    return "gone"


async def everybody(url: str, times: int) -> list[str]:
    """Five kinds, each so often, all at once, so that most of them wait."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        asked = []
        for number in range(times):
            body = {"prompt": f"one two {number} one two one", "max_tokens": 20, "seed": number}
            asked += [
                ask(client, {**body, "stop_token_ids": MANY}),
                ask(client, {**body, "ignore_eos": True, "logprobs": 1}),
                ask(client, {**body, "ignore_eos": True, "max_tokens": 500}, 1 + number % 4),
                ask(
                    client, {**body, "allowed_token_ids": [20, 21], "bad_words": ["0 0", "0", "1"]}
                ),
                leave(httpx.URL(url), {**body, "n": 3, "max_tokens": 500, "ignore_eos": True}),
            ]
        return await asyncio.gather(*asked)


@pytest.mark.parametrize(
    ("page_size", "draft_length", "times"),
    [
        pytest.param(1, 1, 20, marks=pytest.mark.full),
        pytest.param(16, 8, 20, marks=pytest.mark.full),
        (16, 8, 6),
    ],
)
def test_nothing_is_left_anywhere(
    tmp_path: Path, page_size: int, draft_length: int, times: int
) -> None:
    model = tmp_path / "model"
    write_byte_llama(model)
    small = {"kv_bytes": 4 << 20}
    scheduler = {"max_running": 4}
    parts = {
        "verifier": {**small, "page_size": page_size, "scheduler": scheduler},
        "drafter": small,
    }
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump(parts))
    flags = ("--drafters", "2", "--dtype", "float32", "--method", "standalone")
    with up(str(model), tmp_path, *flags, "--draft-length", str(draft_length)) as service:
        until(lambda: len(levels(service)) == 4, "all four have reported")
        before = levels(service)
        ends = asyncio.run(everybody(service.url, times))
        for end in ("stop", "length", "left", "cannot_continue", "gone"):
            assert ends.count(end) >= 0.75 * times, ends
        until(lambda: levels(service) == before, "all is as it was")
        hashes = {
            node["weights"] for node in httpx.get(f"{service.url}/server_info").json()["nodes"][1:]
        }
        assert len(hashes) == 1  # drafters and verifier run the same model, and say so
        assert {role for role, _ in before} == {"front", "verifier", "drafter"}
        assert sum("pages_free" in each for each in before.values()) == 3
