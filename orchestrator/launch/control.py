"""`draftmesh.v1.Control`: what a launcher is asked for while it runs, on a socket that only its user reaches."""

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import grpc

from orchestrator.front.errors import ApiError
from orchestrator.front.rpc.errors import status
from orchestrator.launch import Service
from orchestrator.launch.events import DrainAsked, Registered, ScaleAsked, Wish
from orchestrator.launch.wishes import RefusedError
from orchestrator.rpc.draftmesh_pb2 import (
    ControlResponse,
    DrainRequest,
    Process,
    RegisterRequest,
    ScaleRequest,
)
from orchestrator.rpc.draftmesh_pb2_grpc import add_ControlServicer_to_server
from protocol.rundir import NodeState, runtime_folder

CALLS: Final = 8
"""Wishes that may be waited for at once."""
LONGEST_PATH: Final = 100
"""Characters of a Unix socket's path: systems end at 104 or 108."""
PATIENCE: Final = 600.0
"""Seconds after which a wish whose caller named no deadline is not waited for any more."""
EARLIER: Final = 0.9
"""Part of a caller's time after which it is told how far it came: an answer at its end would come too late."""


class Control:
    """Every call begins what it asks for, and returns when that is done, or as far as it comes within its deadline."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def Register(self, request: RegisterRequest, context: grpc.ServicerContext) -> ControlResponse:  # noqa: N802
        """A node of somebody else's may be dialled."""
        wish = Registered(request.node_id, request.role, request.address)
        return self._granted(context, wish, lambda _: True)

    def Drain(self, request: DrainRequest, context: grpc.ServicerContext) -> ControlResponse:  # noqa: N802
        """A node leaves for good."""

        def gone(nodes: tuple[NodeState, ...]) -> bool:
            return all(node.name != request.node_id for node in nodes)

        return self._granted(context, DrainAsked(request.node_id), gone)

    def Scale(self, request: ScaleRequest, context: grpc.ServicerContext) -> ControlResponse:  # noqa: N802
        """So many nodes; one that cannot start does not hold up the answer."""

        def settled(nodes: tuple[NodeState, ...]) -> bool:
            states = [
                node.state
                for node in nodes
                if node.role == request.role and node.state != "registered"
            ]
            return len(states) == request.count and set(states) <= {"ready", "waiting"}

        return self._granted(context, ScaleAsked(request.role, request.count), settled)

    def _granted(
        self,
        context: grpc.ServicerContext,
        wish: Wish,
        done: Callable[[tuple[NodeState, ...]], bool],
    ) -> ControlResponse:
        try:
            self._service.wish(wish)
        except RefusedError as error:
            refused = ApiError(400 if error.field else 412, error.text, error.field or None)
            context.abort_with_status(status(refused))
        context.add_callback(self._service.look_again)
        left = context.time_remaining()
        seconds = None if left is None else EARLIER * left
        self._service.wait_for(
            lambda nodes: done(nodes) or not context.is_active(),
            PATIENCE if seconds is None else min(seconds, PATIENCE),
        )
        return ControlResponse(nodes=[_told(node) for node in self._service.nodes])


class ControlServer:
    """Obeys until it is closed; the service is told where, and tells those who look for it."""

    def __init__(self, service: Service, name: str) -> None:
        self._own: Path | None = None
        path = runtime_folder() / f"{name}.sock"
        if len(str(path)) > LONGEST_PATH:
            self._own = Path(tempfile.mkdtemp(prefix="draftmesh-"))  # nobody else may look into it
            path = self._own / "control.sock"
        self._server = grpc.server(ThreadPoolExecutor(CALLS, "control"))
        add_ControlServicer_to_server(Control(service), self._server)
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()
        service.obeys_at(f"unix:{path}")

    def close(self) -> None:
        """Nobody is obeyed any more."""
        self._server.stop(None).wait()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)


def _told(node: NodeState) -> Process:
    return Process(
        node_id=node.name,
        role=node.role,
        state=node.state,
        address=node.address,
        pid=node.pid,
    )
