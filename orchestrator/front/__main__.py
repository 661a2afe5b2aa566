"""The front-door process: HTTP in the main thread, the mesh in another. If one ends, both do."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Final

import uvicorn

from orchestrator.front.app import Service, make_app
from orchestrator.front.config import FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Failure, Reply
from orchestrator.front.node import FrontNode, Listener
from orchestrator.front.text import Tokenizer
from protocol.endpoint import Endpoint
from protocol.fingerprint import tokenizer_fingerprint
from protocol.link import Identity
from protocol.messages import Fingerprint
from protocol.process import Control, Peers, Stop, announce
from protocol.runtime import arguments, clock, draw, fail, run
from protocol.zmq_mesh import ZmqMesh

log = logging.getLogger("front")

LAST_WORDS: Final = 2
"""Seconds for answers that are complete to reach their clients after the mesh loop is over."""


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: `Control` has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def main() -> None:
    """Bind, tell where, serve until drained or stopped."""
    config, supervised = arguments("orchestrator.front", FrontConfig, sys.argv[1:])
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    try:
        listening = listen(config.host, config.port)
        tokenizer = Tokenizer(config.model)
        identity = Identity(
            role="front",
            node_id=config.node_id,
            fingerprint=Fingerprint(tokenizer=tokenizer_fingerprint(config.model)),
        )
    except (OSError, ValueError) as error:
        announce("failed", node_id=config.node_id, detail={"error": str(error)})
        fail(str(error))
    endpoint = Endpoint(ZmqMesh(), config.link, identity, draw)
    raise SystemExit(asyncio.run(serve(config, control, endpoint, tokenizer, listening)))


def listen(host: str, port: int) -> socket.socket:
    """A bound socket: the port is ours before anybody hears of it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(f"cannot listen on {host} port {port}: {reason}") from error


async def serve(
    config: FrontConfig,
    control: Control,
    endpoint: Endpoint,
    tokenizer: Tokenizer,
    listening: socket.socket,
) -> int:
    """Run both halves; the exit code says whether the mesh loop ended as asked."""
    loop = asyncio.get_running_loop()

    def deliver(replies: list[tuple[Listener, Reply]]) -> None:
        with contextlib.suppress(RuntimeError):  # the HTTP side is over: nobody waits for these
            loop.call_soon_threadsafe(hand_over, replies)

    node = FrontNode(FrontCore(config), endpoint, clock, deliver)
    server = Server(
        uvicorn.Config(
            make_app(Service(config, node, tokenizer)),
            log_level="warning",
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=LAST_WORDS,
            server_header=False,
        )
    )
    failed = threading.Event()

    def mesh() -> None:
        failure = Failure(503, "the service is stopping", code="stopping")
        try:
            run(node, control, config.drain_seconds)
        except BaseException:
            failed.set()
            failure = Failure(500, "the mesh loop of the front door failed", code="internal")
            log.exception("the mesh loop failed")
        finally:
            node.close(failure)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(setattr, server, "should_exit", True)

    if config.verifiers:
        node.command(Peers(config.verifiers))
    thread = threading.Thread(target=mesh, name="mesh")
    thread.start()
    control.on_command(node.wake)
    host = f"[{config.host}]" if ":" in config.host else config.host
    http = f"http://{host}:{listening.getsockname()[1]}"
    announce("ready", node_id=config.node_id, http=http)
    try:
        await server.serve(sockets=[listening])
    finally:
        control.put(Stop())
        thread.join()
    return int(failed.is_set())


def hand_over(replies: list[tuple[Listener, Reply]]) -> None:
    """In the HTTP side's thread: every listener hears its reply."""
    for listener, reply in replies:
        listener(reply)


if __name__ == "__main__":
    main()
