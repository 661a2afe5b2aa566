"""What `grpc.health.v1` says of a process, asked as Kubernetes and load balancers ask."""

from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from protocol.config import HealthConfig
from protocol.health import Health
from protocol.runtime import Unasked, health

SECONDS = 30.0
SERVING, NOT = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


@pytest.fixture
def asked() -> Iterator[Health]:
    made = Health("verifier", HealthConfig(port=0))
    yield made
    made.close()


def test_it_is_not_serving_until_somebody_says_so_and_watchers_hear_every_change(
    asked: Health,
) -> None:
    with grpc.insecure_channel(asked.address) as channel:
        stub = HealthStub(channel)
        assert stub.Check(HealthCheckRequest(), timeout=SECONDS).status == NOT
        watched = stub.Watch(HealthCheckRequest(service="verifier"), timeout=SECONDS)
        assert next(watched).status == NOT
        asked.tell(serving=True)
        assert next(watched).status == SERVING
        assert stub.Check(HealthCheckRequest(), timeout=SECONDS).status == SERVING
        asked.tell(serving=False)
        assert next(watched).status == NOT


def test_a_port_that_is_taken_is_an_error(asked: Health) -> None:
    port = int(asked.address.rpartition(":")[2])
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port} for health"):
        Health("drafter", HealthConfig(port=port))


def test_without_a_port_nobody_is_asked() -> None:
    assert isinstance(health("drafter", HealthConfig()), Unasked)
