"""The front-door process: HTTP in the main thread, the mesh in another. If one ends, both do."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from pydantic import SecretStr

from orchestrator.front.app import make_app
from orchestrator.front.config import KEY_VARIABLE, FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.desk import Desk
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
from protocol.runtime import Tells, arguments, clock, day, draw, give_up, health, run
from protocol.zmq_mesh import ZmqMesh

if TYPE_CHECKING:
    from orchestrator.front.rpc.server import RpcServer

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
        asked = health("front", config.health)
        endpoint = Endpoint(ZmqMesh("", config.mesh), config.link, identity, draw, day)
    except (OSError, ValueError, LocalError) as error:
        give_up(config.node_id, str(error))
    ports = Ports(listening, page, asked)
    try:
        raise SystemExit(asyncio.run(serve(config, control, endpoint, tokenizer, ports)))
    finally:
        asked.close()


class Ports(NamedTuple):
    """Where it is asked: the API, the metrics where they have a port of their own, and its health."""

    api: socket.socket
    page: socket.socket | None
    health: Tells


async def serve(
    config: FrontConfig,
    control: Control,
    endpoint: Endpoint,
    tokenizer: Tokenizer,
    ports: Ports,
) -> int:
    """Run both halves; the exit code says whether the mesh loop ended as asked."""
    loop = asyncio.get_running_loop()

    def deliver(replies: list[tuple[Listener, Reply]]) -> None:
        with contextlib.suppress(RuntimeError):  # the HTTP side is over: nobody waits for these
            loop.call_soon_threadsafe(hand_over, replies)

    node = FrontNode(FrontCore(config), endpoint, clock, deliver)
    watch = Watch(config, node)
    desk = Desk(config, watch.door, tokenizer)
    api = server(watch.around(make_app(desk)), config.tls_certificate, config.tls_key)
    try:
        calls = await served_calls(desk, watch)
    except OSError as error:
        give_up(config.node_id, str(error))
    failed = threading.Event()

    def over() -> None:
        watch.feed.close()  # a page that is open must not hold up the end
        api.should_exit = True

    def mesh() -> None:
        failure = Failure(503, "the service is stopping", code="stopping")
        try:
            run(node, control, config.drain_seconds, ports.health)
        except BaseException:
            failed.set()
            failure = Failure(500, "the mesh loop of the front door failed", code="internal")
            log.exception("the mesh loop failed")
        finally:
            node.close(failure)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(over)

    if config.verifiers:
        control.put(Peers(config.verifiers))
    thread = threading.Thread(target=mesh, name="mesh")
    thread.start()
    control.on_command(node.wake)
    watch.start(ports.page)
    tls = config.tls_key is not None
    announce(
        "ready",
        node_id=config.node_id,
        http=address(config.host, ports.api, tls=tls),
        metrics="" if ports.page is None else address(config.host, ports.page, tls=tls),
        grpc="" if calls is None else calls.address,
        health=ports.health.address,
    )
    try:
        await api.serve(sockets=[ports.api])
    finally:
        control.put(Stop())
        await asyncio.to_thread(thread.join)
        if calls is not None:
            await calls.stop()
        await watch.close()
    return int(failed.is_set())


async def served_calls(desk: Desk, watch: Watch) -> "RpcServer | None":
    """Answer gRPC calls, if that is configured; an OSError if the port cannot be had."""
    if desk.config.grpc_port is None:
        return None
    from orchestrator.front.rpc.server import RpcServer  # noqa: PLC0415  # costs time and threads

    calls = RpcServer(desk, desk.config.grpc_port, watch.story)
    await calls.start()
    return calls


def hand_over(replies: list[tuple[Listener, Reply]]) -> None:
    """In the HTTP side's thread: every listener hears its reply."""
    for listener, reply in replies:
        listener(reply)


if __name__ == "__main__":
    main()
