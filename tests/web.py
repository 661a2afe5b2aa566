"""A cluster with a front door, all in one thread: HTTP requests run while everybody takes turns."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from orchestrator.front.app import Service, make_app
from orchestrator.front.config import FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Reply
from orchestrator.front.node import FrontNode, Listener
from orchestrator.front.text import Tokenizer
from protocol.link import Identity
from protocol.process import Peers
from tests.cluster import TURNS, Cluster

Json = dict[str, Any]


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
        self.app = make_app(Service(config, self.node, Tokenizer(folder)))
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
                asked = [
                    asyncio.create_task(client.post(path, json=body, timeout=None))
                    for body in bodies
                ]
                self._keep_turning(asked, TURNS)
                return await asyncio.gather(*asked)

        return asyncio.run(go())

    def _keep_turning(self, asked: list[asyncio.Task[httpx.Response]], left: int) -> None:
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
        """Let everything that is under way arrive."""
        for _ in range(50):
            self.turn()


def _hand_over(replies: list[tuple[Listener, Reply]]) -> None:
    for listener, reply in replies:
        listener(reply)
