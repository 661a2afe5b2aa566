"""The front-door process: HTTP in the main thread, the mesh in another. If one ends, both do."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading

from pydantic import SecretStr

from orchestrator.front.app import Service, make_app
from orchestrator.front.config import KEY_VARIABLE, FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Failure, Reply
from orchestrator.front.node import FrontNode, Listener
from orchestrator.front.server import address, check_tls, listen, server
from orchestrator.front.text import Tokenizer
from orchestrator.front.watch import Watch
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.fingerprint import tokenizer_fingerprint
from protocol.link import Identity
from protocol.messages import Fingerprint
from protocol.process import Control, Peers, Stop, announce
from protocol.runtime import arguments, clock, draw, fail, run
from protocol.zmq_mesh import ZmqMesh

log = logging.getLogger("front")


def main() -> None:
    """Bind, tell where, serve until drained or stopped."""
    config, supervised = arguments("orchestrator.front", FrontConfig, sys.argv[1:])
    if key := os.environ.get(KEY_VARIABLE):
        config = config.model_copy(update={"api_key": SecretStr(key)})
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    try:
        listening = listen(config.host, config.port)
        page = None if config.metrics_port is None else listen(config.host, config.metrics_port)
        tokenizer = Tokenizer(config.model)
        identity = Identity(
            role="front",
            node_id=config.node_id,
            fingerprint=Fingerprint(tokenizer=tokenizer_fingerprint(config.model)),
        )
        check_tls(config)
        endpoint = Endpoint(ZmqMesh("", config.mesh), config.link, identity, draw)
    except (OSError, ValueError, LocalError) as error:
        announce("failed", node_id=config.node_id, detail={"error": str(error)})
        fail(str(error))
    raise SystemExit(asyncio.run(serve(config, control, endpoint, tokenizer, (listening, page))))


async def serve(
    config: FrontConfig,
    control: Control,
    endpoint: Endpoint,
    tokenizer: Tokenizer,
    ports: tuple[socket.socket, socket.socket | None],
) -> int:
    """Run both halves; the exit code says whether the mesh loop ended as asked.

    `ports` are the API's and, where it has one of its own, that of the metrics.
    """
    listening, page = ports
    loop = asyncio.get_running_loop()

    def deliver(replies: list[tuple[Listener, Reply]]) -> None:
        with contextlib.suppress(RuntimeError):  # the HTTP side is over: nobody waits for these
            loop.call_soon_threadsafe(hand_over, replies)

    node = FrontNode(FrontCore(config), endpoint, clock, deliver)
    watch = Watch(config, node)
    app = watch.around(make_app(Service(config, watch.door, tokenizer)))
    api = server(app, config.tls_certificate, config.tls_key)
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
                loop.call_soon_threadsafe(setattr, api, "should_exit", True)

    if config.verifiers:
        control.put(Peers(config.verifiers))
    thread = threading.Thread(target=mesh, name="mesh")
    thread.start()
    control.on_command(node.wake)
    watch.start(page)
    announce(
        "ready",
        node_id=config.node_id,
        http=address(config.host, listening, tls=config.tls_key is not None),
        metrics="" if page is None else address(config.host, page, tls=config.tls_key is not None),
    )
    try:
        await api.serve(sockets=[listening])
    finally:
        control.put(Stop())
        thread.join()
        await watch.close()
    return int(failed.is_set())


def hand_over(replies: list[tuple[Listener, Reply]]) -> None:
    """In the HTTP side's thread: every listener hears its reply."""
    for listener, reply in replies:
        listener(reply)


if __name__ == "__main__":
    main()
