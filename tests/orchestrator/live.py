"""The real app, mesh loop and server in this process; only the verifier answers by a script."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn

from orchestrator.front.__main__ import hand_over
from orchestrator.front.app import make_app
from orchestrator.front.core import FrontCore
from orchestrator.front.desk import Desk
from orchestrator.front.messages import Failure, Reply
from orchestrator.front.node import FrontNode, Listener
from orchestrator.front.server import Server, listen
from orchestrator.front.text import Tokenizer
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity
from protocol.local_mesh import LocalNetwork
from protocol.messages import Fingerprint, Limits
from protocol.process import Peers, Stop
from protocol.runtime import draw
from tests.orchestrator.fakes import FakeVerifier, config, echo


class LiveFront:
    """Three threads: HTTP, mesh loop, verifier; `url` is where it listens."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        network = LocalNetwork(time.monotonic)
        mesh = network.mesh("verifier")
        identity = Identity(
            "verifier", "verifier-0", Fingerprint(vocabulary=261), Limits(context=64, max_ahead=4)
        )
        self._fields = fields
        self.verifier = FakeVerifier(Endpoint(mesh, LinkConfig(), identity, draw), echo)
        self._mesh = mesh
        self._network = network
        self._folder = folder
        self._listening = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self._ended = False
        self._up = threading.Event()
        self._threads = [
            threading.Thread(target=self._verify),
            threading.Thread(target=lambda: asyncio.run(self._serve())),
        ]

    def __enter__(self) -> "LiveFront":
        for thread in self._threads:
            thread.start()
        assert self._up.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._mesh.wake()
        self.node.command(Stop())
        self.node.wake()
        for thread in self._threads:
            thread.join(30)

    def _verify(self) -> None:
        while not self._ended:
            self.verifier.turn(time.monotonic())
            self._mesh.wait(0.5)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        endpoint = Endpoint(
            self._network.mesh("front"), LinkConfig(), Identity("front", "front-0"), draw
        )
        settings = config(**self._fields)

        def deliver(replies: list[tuple[Listener, Reply]]) -> None:
            loop.call_soon_threadsafe(hand_over, replies)

        self.node = FrontNode(
            FrontCore(settings),
            endpoint,
            time.monotonic,
            deliver,
        )
        app = make_app(Desk(settings, self.node, Tokenizer(self._folder)))
        server = Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        self.node.command(Peers(("verifier",)))

        def mesh() -> None:
            while not self.node.stopped:
                self.node.turn()
                if self.node.status().ready:
                    self._up.set()
                self.node.pause()
            self.node.close(Failure(503, "stopping"))
            loop.call_soon_threadsafe(setattr, server, "should_exit", True)

        thread = threading.Thread(target=mesh)
        thread.start()
        await server.serve(sockets=[self._listening])
        thread.join()
