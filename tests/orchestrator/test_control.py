"""A service that is asked for things while it runs: real processes, their health, and the commands that ask."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from drafter.config import DrafterConfig
from orchestrator.front.config import FrontConfig
from orchestrator.launch.control import ControlServer
from orchestrator.launch.local import LocalService
from orchestrator.launch.plan import Child
from orchestrator.rpc.draftmesh_pb2 import GetServerInfoRequest, RegisterRequest
from orchestrator.rpc.draftmesh_pb2_grpc import ControlStub, InferenceStub
from protocol.config import HealthConfig
from protocol.rundir import running
from tests.orchestrator.rpc_app import refusal
from tests.orchestrator.test_cli import run
from tests.orchestrator.test_local_service import ENOUGH, News, nodes

ASKED = HealthConfig(port=0)


def drafter(number: int) -> Child:
    config = DrafterConfig(node_id=f"drafter-{number}", method="ngram", health=ASKED)
    return Child(config, "drafter")


@pytest.fixture(scope="module")
def service(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """A front door and a drafter, as `up` keeps them; every test leaves it as it was."""
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_RUNTIME_DIR", str(folder))
        environment.setenv("DRAFTMESH_CACHE", str(folder / "cache"))
        environment.chdir(folder)
        yield from _running(tiny)
    assert not list((folder / "draftmesh").iterdir())


def _running(tiny: Path) -> Iterator[LocalService]:
    front = FrontConfig(model=tiny, name="tiny", port=0, grpc_port=0, health=ASKED)
    service = LocalService([Child(front, "front"), drafter(0)], News(), spare=drafter)
    assert service.wait_up(ENOUGH)
    control = ControlServer(service, service.name)
    yield service
    service.stop()
    service.wait(ENOUGH)
    control.close()


def health(address: str, name: str = "") -> int:
    with grpc.insecure_channel(address) as channel:
        status: int = (
            HealthStub(channel).Check(HealthCheckRequest(service=name), timeout=ENOUGH).status
        )
        return status


def test_drafters_come_and_go_while_the_service_runs(service: LocalService) -> None:
    code, text = run("scale", "--drafters", "3", "--output", "json")
    assert code == 0
    told = {node["node"]: node for node in json.loads(text)["nodes"]}
    assert sorted(told) == ["drafter-0", "drafter-1", "drafter-2", "front-0"]
    assert {node["state"] for node in told.values()} == {"ready"}
    assert len({node["address"] for node in told.values()}) == 4
    assert {name: node.pid for name, node in nodes().items()} == {
        name: int(node["process"]) for name, node in told.items()
    }
    assert run("scale", "--drafters", "1")[0] == 0
    assert sorted(nodes()) == ["drafter-0", "front-0"]
    assert nodes()["drafter-0"].pid == int(told["drafter-0"]["process"])
    assert run("drain", "drafter-0")[0] == 0
    assert sorted(nodes()) == ["front-0"]
    assert run("scale", "--drafters", "1")[0] == 0
    assert service.url


@pytest.mark.usefixtures("service")
def test_what_cannot_be_had_is_said_in_one_sentence() -> None:
    assert run("scale", "--drafters", "300") == (2, "error: 300 drafters are not 0 to 256.\n")
    code, text = run("drain", "nobody")
    assert (code, text) == (2, "error: there is no node 'nobody', only drafter-0 or front-0.\n")
    code, text = run("drain", "front-0")
    assert code == 1
    assert "`down` ends the service" in text
    assert run("scale", "--drafters", "1", "--service", "other")[0] == 3


@pytest.mark.usefixtures("service")
def test_who_does_not_want_to_wait_is_told_that_it_goes_on() -> None:
    pid = nodes()["drafter-0"].pid
    os.kill(pid, signal.SIGSTOP)
    code, text = run("scale", "--drafters", "0", "--wait", "0.3")
    os.kill(pid, signal.SIGCONT)
    assert code == 1
    assert text.endswith(
        "error: It has not come that far yet; `orchestrator status` tells how it goes on.\n"
    )
    assert run("scale", "--drafters", "0")[0] == run("scale", "--drafters", "1")[0] == 0
    assert "drafter-0" in nodes()


@pytest.mark.usefixtures("service")
def test_a_node_of_somebody_else_takes_part_until_it_is_drained() -> None:
    assert run("register", "drafter", "far", "tcp://127.0.0.1:9")[0] == 0
    assert nodes()["far"].state == "registered"
    assert run("scale", "--drafters", "1")[0] == 0  # it is not one of the service's own
    assert run("drain", "far")[0] == 0
    assert "far" not in nodes()
    assert run("register", "front", "far", "tcp://127.0.0.1:9")[0] == 2


@pytest.mark.usefixtures("service")
def test_a_refusal_names_the_field() -> None:
    async def go() -> Any:  # noqa: ANN401
        async with grpc.aio.insecure_channel(running()[0].control) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ControlStub(channel).Register(RegisterRequest(role="drafter", node_id="x"))
        return refusal(refused.value)

    assert asyncio.run(go()) == (400, "address", "invalid_argument")


@pytest.mark.usefixtures("service")
def test_every_role_says_whether_it_would_take_work() -> None:
    """The front door has no verifier, so it would not; a drafter needs nobody."""
    there = nodes()
    assert health(there["drafter-0"].health) == HealthCheckResponse.SERVING
    assert health(there["drafter-0"].health, "drafter") == HealthCheckResponse.SERVING
    assert health(there["front-0"].health, "front") == HealthCheckResponse.NOT_SERVING
    with pytest.raises(grpc.RpcError) as unknown:
        health(there["drafter-0"].health, "front")
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.usefixtures("service")
def test_a_front_door_process_answers_calls() -> None:
    with grpc.insecure_channel(running()[0].grpc) as channel:
        told = InferenceStub(channel).GetServerInfo(GetServerInfoRequest(), timeout=ENOUGH)
    assert (told.model, told.ready) == ("tiny", False)
