"""The `openai` client against the real app, mesh loop and server; only the verifier answers by a script."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

from orchestrator.front.__main__ import hand_over
from orchestrator.front.app import Service, make_app
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Failure, Reply
from orchestrator.front.node import FrontNode, Listener
from orchestrator.front.server import Server, listen
from orchestrator.front.text import Tokenizer
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity
from protocol.local_mesh import LocalNetwork
from protocol.messages import Limits
from protocol.process import Peers, Stop
from protocol.runtime import draw
from tests.orchestrator.fakes import FakeVerifier, config, echo


class LiveFront:
    """Three threads: HTTP, mesh loop, verifier; `url` is where it listens."""

    def __init__(self, folder: Path) -> None:
        network = LocalNetwork(time.monotonic)
        mesh = network.mesh("verifier")
        identity = Identity("verifier", "verifier-0", limits=Limits(context=64))
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
        settings = config()

        def deliver(replies: list[tuple[Listener, Reply]]) -> None:
            loop.call_soon_threadsafe(hand_over, replies)

        self.node = FrontNode(
            FrontCore(settings),
            endpoint,
            time.monotonic,
            deliver,
        )
        app = make_app(Service(settings, self.node, Tokenizer(self._folder)))
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


@pytest.fixture(scope="module")
def front(tiny: Path) -> Iterator[LiveFront]:
    with LiveFront(tiny) as live:
        yield live


@pytest.fixture
def client(front: LiveFront) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=front.url, api_key="none", max_retries=0, timeout=30) as one:
        yield one


MESSAGES: Any = [{"role": "user", "content": "hi"}]


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "draftmesh"


def test_a_chat_streams_what_it_answers(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="tiny", messages=MESSAGES)
    text = ""
    usage = None
    for piece in client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    ):
        usage = piece.usage or usage
        for choice in piece.choices:
            text += choice.delta.content or ""
    assert text == whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "stop"
    assert usage == whole.usage


def test_a_completion_streams_what_it_answers(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt="some words", max_tokens=5)
    stream = client.completions.create(model="tiny", prompt="some words", max_tokens=5, stream=True)
    assert "".join(p.choices[0].text for p in stream) == whole.choices[0].text
    assert whole.choices[0].finish_reason == "length"


def test_errors_are_the_clients_own_classes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="other", prompt="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="tiny", prompt="a", suffix="b")
    assert refused.value.param == "suffix"


def test_a_client_that_hangs_up_is_aborted(front: LiveFront, client: openai.OpenAI) -> None:
    front.verifier.script = lambda submit: list(echo(submit))[:-1]  # it never says that it is done
    try:
        with client.completions.create(model="tiny", prompt="ab", stream=True) as stream:
            next(iter(stream))
        assert front.verifier.aborted.wait(30)
        assert len(front.verifier.aborts) == 1
    finally:
        front.verifier.script = echo
