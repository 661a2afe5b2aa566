"""A cluster with a front door, all in one thread: HTTP requests run while everybody takes turns."""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from orchestrator.front.app import make_app
from orchestrator.front.config import FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.desk import Desk
from orchestrator.front.messages import Reply
from orchestrator.front.node import FrontNode, Listener
from orchestrator.front.text import Tokenizer
from protocol.link import Identity
from protocol.process import Peers
from tests import identities
from tests.cluster import TURNS, Cluster

Json = dict[str, Any]
T = TypeVar("T")


class Web:
    """Asks a cluster over HTTP."""

    def __init__(self, cluster: Cluster, folder: Path, **fields: Any) -> None:
        self.cluster = cluster
        config = FrontConfig.model_validate({"model": folder, "name": "tiny", **fields})
        self.node = FrontNode(
            FrontCore(config),
            cluster._endpoint("door", Identity("front", "door")),
            cluster._clock,
            _hand_over,
        )
        self.node.command(Peers(("verifier",)))
        self.desk = Desk(config, self.node, Tokenizer(folder))
        self.app = make_app(self.desk)
        cluster.connect()
        for _ in range(TURNS):
            if self.node.status().ready:
                return
            self.turn()
        raise AssertionError("the front door found no verifier")

    def turn(self) -> None:
        self.node.turn()
        list(self.cluster.turn())

    def ask(self, *bodies: Json, path: str = "/v1/completions") -> list[httpx.Response]:
        """All requests at once; their responses in the same order."""

        async def go() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
                return await self.among([client.post(path, json=body) for body in bodies])

        return asyncio.run(go())

    async def among(self, visits: Iterable[Awaitable[T]]) -> list[T]:
        """All of these, while everybody takes turns."""
        tasks = [asyncio.ensure_future(visit) for visit in visits]
        self._keep_turning(tasks, TURNS)
        return await asyncio.gather(*tasks)

    async def leave(self, body: Json, after: int, path: str = "/v1/completions") -> list[Json]:
        """A visitor who goes after so many pieces of the body; what was sent to it."""
        said: list[Any] = [{"type": "http.request", "body": json.dumps(body).encode()}]
        heard: list[Json] = []
        enough = asyncio.Event()
        if not after:
            enough.set()

        async def receive() -> Any:  # noqa: ANN401
            if said:
                return said.pop()
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:  # noqa: ANN401
            heard.append(message)
            if len(heard) > after:
                enough.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [],
        }
        await self.app(scope, receive, send)
        return heard

    def _keep_turning(self, asked: Sequence[asyncio.Future[Any]], left: int) -> None:
        """One turn whenever nothing else runs, until all is answered."""
        if all(task.done() for task in asked):
            return
        if not left:
            for task in asked:
                task.cancel("the cluster is stuck")
            return
        self.turn()
        asyncio.get_running_loop().call_soon(self._keep_turning, asked, left - 1)

    def settle(self) -> None:
        """Let everything that is under way arrive; nothing may be left of any request then, on any side."""
        for _ in range(50):
            self.turn()
        cluster = self.cluster
        identities.check(cluster.core.facts())
        assert cluster.core.idle
        assert cluster.pool.free == cluster.pool.pages
        assert [len(each.core) for each in cluster.drafters.values()] == [0] * len(cluster.drafters)
        for drafter in cluster.drafters.values():
            gauges = drafter.core.facts().gauges
            assert gauges.get("pages_free") == gauges.get("pages")
        assert self.node.status().in_flight == 0


def _hand_over(replies: list[tuple[Listener, Reply]]) -> None:
    for listener, reply in replies:
        listener(reply)
