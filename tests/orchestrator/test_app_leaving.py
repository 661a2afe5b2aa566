"""Clients that leave: whatever they asked for is given up."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import Emit
from tests.orchestrator.http_app import FakeDoor, Http


async def leaves(app: Any, body: dict[str, Any], when: Callable[[], Awaitable[None]]) -> list[Any]:  # noqa: ANN401
    """A client that sends its request and goes away; what it was sent."""
    content = json.dumps(body).encode()
    words = iter([{"type": "http.request", "body": content, "more_body": False}])
    sent: list[Any] = []

    async def receive() -> Any:  # noqa: ANN401
        for word in words:
            return word
        await when()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "method": "POST",
        "path": "/v1/completions",
        "raw_path": b"/v1/completions",
        "query_string": b"",
        "headers": [],
    }
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_the_first_word_is_aborted(tiny: Path, stream: bool) -> None:
    http = Http(tiny, FakeDoor(lambda _: ()))

    async def once_asked() -> None:
        await http.door.asked.wait()

    asyncio.run(leaves(http.app, {"prompt": "a", "stream": stream}, once_asked))
    assert http.door.aborted == [1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_in_the_middle_is_aborted(tiny: Path, stream: bool) -> None:
    http = Http(tiny, FakeDoor(lambda s: [Emit(s.request, 0, (1,), "one")]))

    async def once_asked() -> None:
        await http.door.asked.wait()

    asyncio.run(leaves(http.app, {"prompt": ["a", "b"], "stream": stream}, once_asked))
    assert http.door.aborted == [1, 2]


def test_a_client_that_stays_to_the_end_is_not(http: Http) -> None:
    http.complete(prompt="a", stream=True)
    http.complete(prompt="a")
    assert http.door.aborted == []
