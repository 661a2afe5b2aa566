"""Two services started at once on one machine, and strangers at every port that they listen at."""

import os
import pickle  # noqa: TID251  # what a stranger might send
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psutil
import pytest
import zmq

from tests.e2e.service import Service, until, up
from tests.models import write_byte_llama


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    target = tmp_path_factory.mktemp("target")
    write_byte_llama(target)
    folders = [tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")]
    flags = ("--drafters", "1", "--dtype", "float32", "--draft-length", "4")
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:

        def begin(folder: Path) -> Service:
            return stack.enter_context(up(str(target), folder, *flags))

        yield list(pool.map(begin, folders))


def answer(service: Service) -> httpx.Response:
    body = {"prompt": "one two one two one two one", "max_tokens": 24, "temperature": 0}
    return httpx.post(f"{service.url}/v1/completions", json=body, timeout=60)


def ports(service: Service) -> list[tuple[str, int]]:
    """Where its processes listen."""
    found = [
        (each.laddr.ip, each.laddr.port)
        for pid in (service.process.pid, *service.pids.values())
        for each in psutil.Process(pid).net_connections(kind="inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert len(found) >= 3, found  # front door, verifier, drafter
    return found


def test_two_at_once_serve_both_and_share_nothing(services: list[Service]) -> None:
    one, other = services
    assert one.url != other.url
    assert set(one.pids.values()).isdisjoint(other.pids.values())
    assert set(ports(one)).isdisjoint(ports(other))
    until(lambda: all(_drafted(each) for each in services), "each has a drafter")
    texts = {answer(each).json()["choices"][0]["text"] for each in services}
    assert len(texts) == 1


def _drafted(service: Service) -> bool:
    spent = answer(service).json()["choices"][0]["draftmesh"]
    return bool(spent["accepted"])


def test_only_this_machine_reaches_them(services: list[Service]) -> None:
    assert {ip for each in services for ip, _ in ports(each)} <= {"127.0.0.1", "::1"}


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def test_a_pickle_at_any_port_is_not_run(services: list[Service], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    bomb = pickle.dumps(Bomb(marker))
    service = services[0]
    for place in ports(service):
        with socket.create_connection(place, timeout=2) as raw, suppress(OSError):
            raw.sendall(bomb * 3)
            raw.recv(4096)
    context = zmq.Context()
    for name in ("verifier-0", "drafter-0"):
        stranger = context.socket(zmq.DEALER)
        stranger.linger = 1000
        stranger.connect(service.node(name).address)
        for frames in ([bomb], [b"", bomb], [b"DMSH\x01\x05\x00\x00" + bytes(24), bomb]):
            stranger.send_multipart(frames)
        stranger.close()
    context.term()
    for path in ("v1/completions", "v1/chat/completions", "nowhere"):
        sent = httpx.post(f"{service.url}/{path}", content=bomb, timeout=10)
        assert sent.status_code in {400, 404, 415, 422}
    assert answer(service).json()["choices"][0]["finish_reason"]
    assert not marker.exists()
    pickle.loads(bomb)  # noqa: S301  # ours: it would have been noticed
    assert marker.exists()
