"""An app in this process over a mesh side that answers by a script, and how its responses are read."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx

from orchestrator.front.app import make_app
from orchestrator.front.desk import Desk
from orchestrator.front.messages import Failure, Query, Reply, Status
from orchestrator.front.text import Tokenizer
from protocol.messages import AnyMessage, Done, Emit, Submit
from tests.orchestrator.fakes import config, echo

Answer = Callable[[Submit], Iterable[AnyMessage | Failure]]
READY = Status(alive=True, ready=True, verifiers=1, context=64, vocabulary=261, draft_length=4)


class FakeDoor:
    """Answers at once, in the caller's thread; what was asked and given up is there to be looked at."""

    def __init__(self, answer: Answer = echo, status: Status = READY) -> None:
        self.queries: list[Query] = []
        self.aborted: list[int] = []
        self.asked = asyncio.Event()
        self._answer = answer
        self._status = status

    def submit(self, query: Query, listener: Callable[[Reply], None]) -> int:
        self.queries.append(query)
        self.asked.set()
        ticket = len(self.queries)
        for message in self._answer(query.submit(ticket)):
            assert isinstance(message, Emit | Done | Failure)
            listener(message)
        return ticket

    def abort(self, ticket: int) -> None:
        self.aborted.append(ticket)

    def status(self) -> Status:
        return self._status


class Http:
    """Requests to an app in this process."""

    def __init__(self, folder: Path, door: FakeDoor, **fields: Any) -> None:
        self.door = door
        settings = config(**{"max_body": 4096, **fields})
        self.desk = Desk(settings, door, Tokenizer(folder), draw=lambda: 77)
        self.app = make_app(self.desk)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
                return await client.request(method, path, **more)

        return asyncio.run(go())

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def complete(self, **body: Any) -> httpx.Response:
        return self.request("POST", "/v1/completions", json={"model": "tiny", **body})

    def chat(self, **body: Any) -> httpx.Response:
        said = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
        return self.request("POST", "/v1/chat/completions", json={**said, **body})


def events(response: httpx.Response) -> list[Any]:
    """The data of a stream; `[DONE]` as text."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def error(response: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, param and code; the shape of the body is checked on the way."""
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return response.status_code, body["error"]["param"], body["error"]["code"]
