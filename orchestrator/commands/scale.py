"""`orchestrator scale`, `drain` and `register`: what a service is asked for through its launcher's socket."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc

from orchestrator.commands.output import FAILED, USAGE, complain, data, table
from orchestrator.commands.services import chosen
from orchestrator.rpc.draftmesh_pb2 import (
    ControlResponse,
    DrainRequest,
    RegisterRequest,
    ScaleRequest,
)
from orchestrator.rpc.draftmesh_pb2_grpc import ControlStub

NOT_YET: Final = "It has not come that far yet; `orchestrator status` tells how it goes on."
HEADS: Final = ("node", "role", "process", "state", "address")


def scale(name: str | None, drafters: int, *, seconds: float, as_json: bool) -> int:
    """Bring a service to so many drafters, and wait until they are there and the others have gone."""
    asked = ScaleRequest(role="drafter", count=drafters)

    def reached(response: ControlResponse) -> bool:
        states = [node.state for node in response.nodes if node.role == "drafter"]
        return states.count("ready") == drafters and set(states) <= {"ready", "registered"}

    return _asked(name, lambda stub: stub.Scale(asked, timeout=seconds), reached, as_json=as_json)


def drain(name: str | None, node: str, *, seconds: float, as_json: bool) -> int:
    """Let one node finish what it has and leave for good."""

    def gone(response: ControlResponse) -> bool:
        return all(each.node_id != node for each in response.nodes)

    asked = DrainRequest(node_id=node)
    return _asked(name, lambda stub: stub.Drain(asked, timeout=seconds), gone, as_json=as_json)


def register(name: str | None, asked: RegisterRequest, *, seconds: float, as_json: bool) -> int:
    """Let a node that somebody else keeps running take part."""

    def there(response: ControlResponse) -> bool:
        return any(each.node_id == asked.node_id for each in response.nodes)

    return _asked(name, lambda stub: stub.Register(asked, timeout=seconds), there, as_json=as_json)


def _asked(
    name: str | None,
    ask: Callable[[Any], ControlResponse],
    reached: Callable[[ControlResponse], bool],
    *,
    as_json: bool,
) -> int:
    service = chosen(name)
    if not service.control:
        complain(f"{service.name} cannot be asked for this: it was not started by `up`.")
        return FAILED
    try:
        with grpc.insecure_channel(service.control) as channel:
            response = ask(ControlStub(channel))
    except grpc.RpcError as error:
        return _refused(error)
    _show(response, as_json=as_json)
    if reached(response):
        return 0
    complain(NOT_YET)
    return FAILED


def _refused(error: Any) -> int:  # noqa: ANN401
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        complain(NOT_YET)
        return FAILED
    complain(f"{str(error.details()).rstrip('.')}.")
    return USAGE if error.code() is grpc.StatusCode.INVALID_ARGUMENT else FAILED


def _show(response: ControlResponse, *, as_json: bool) -> None:
    rows: Sequence[tuple[str, ...]] = [
        (node.node_id, node.role, str(node.pid or ""), node.state, node.address)
        for node in response.nodes
    ]
    if as_json:
        data({"nodes": [dict(zip(HEADS, row, strict=True)) for row in rows]})
    else:
        table(HEADS, rows)
