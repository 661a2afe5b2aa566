"""One contract for all meshes: in process, over tcp, over ipc, over encrypted tcp, and the one that joins two."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from orchestrator.bench.colocated import TwoMeshes
from protocol.config import MeshConfig
from protocol.errors import LocalError
from protocol.keys import KeyRing
from protocol.local_mesh import LocalNetwork
from protocol.mesh import Frames, Mesh, Peer
from protocol.zmq_mesh import ZmqMesh

PATIENCE = 10.0
"""Seconds after which a message that should have come is missed."""

Arrived = tuple[Peer, Frames]


@dataclass
class World:
    """Makes nodes of one kind of mesh. `bind` gives a node that can be dialled at its address, maybe a given one."""

    bind: Callable[[str], Mesh]
    made: list[Mesh] = field(default_factory=list)

    def node(self, address: str = "") -> Mesh:
        mesh = self.bind(address)
        self.made.append(mesh)
        return mesh


@pytest.fixture(params=["local", "tcp", "ipc", "curve", "two"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    network, serial = LocalNetwork(time.monotonic, bound=256), count()
    if request.param == "curve":
        KeyRing(tmp_path).new()
    keyed = MeshConfig(keys=tmp_path)
    binds: dict[str, Callable[[str], Mesh]] = {
        "local": lambda address: network.mesh(address or f"node-{next(serial)}"),
        "tcp": lambda address: ZmqMesh(address or "tcp://127.0.0.1:*"),
        "ipc": lambda address: ZmqMesh(address or f"ipc://{tmp_path}/{next(serial)}"),
        "curve": lambda address: ZmqMesh(address or "tcp://127.0.0.1:*", keyed),
        "two": lambda address: TwoMeshes(
            ZmqMesh(address or "tcp://127.0.0.1:*"), network.mesh(f"inside:{next(serial)}")
        ),
    }
    made = World(binds[request.param])
    yield made
    for mesh in made.made:
        mesh.close()


def until(done: Callable[[], bool], mesh: Mesh) -> None:
    """Turn until `done`, waiting on `mesh` in between."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "nothing came"
        mesh.wait(0.02)


def receive(mesh: Mesh, wanted: int) -> list[Arrived]:
    """The next messages, as many as `wanted`."""
    arrived: list[Arrived] = []

    def enough() -> bool:
        arrived.extend(mesh.drain())
        return len(arrived) >= wanted

    until(enough, mesh)
    assert len(arrived) == wanted
    return arrived


def deliver(sender: Mesh, peer: Peer, *frames: bytes) -> None:
    """Send as soon as the transport takes it."""
    until(lambda: sender.send(peer, frames), sender)


def linked(world: World) -> tuple[Mesh, Peer, Mesh, Peer]:
    """Two nodes that have heard of each other: dialler, its peer, answerer, its peer."""
    answerer, dialler = world.node(), world.node()
    peer = dialler.connect(answerer.address)
    deliver(dialler, peer, b"hello")
    [(back, _)] = receive(answerer, 1)
    return dialler, peer, answerer, back


# --- what arrives -----------------------------------------------------------------------------------------------


def test_a_message_arrives_with_its_parts_as_they_were(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    parts = [b"", b"one", bytes(range(256)), b"", b"\x00"]
    deliver(dialler, peer, *parts)
    assert [frames for _, frames in receive(answerer, 1)] == [parts]


def test_messages_of_one_peer_keep_their_order(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    sent = [b"%d" % number for number in range(200)]
    for body in sent:
        deliver(dialler, peer, b"part", body)
    assert [frames for _, frames in receive(answerer, 200)] == [[b"part", body] for body in sent]


def test_both_sides_speak_and_an_answer_comes_from_the_dialled_peer(world: World) -> None:
    dialler, peer, answerer, back = linked(world)
    deliver(answerer, back, b"welcome")
    deliver(dialler, peer, b"thanks")
    assert receive(dialler, 1) == [(peer, [b"welcome"])]
    assert receive(answerer, 1) == [(back, [b"thanks"])]


def test_memory_views_travel_like_bytes(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    until(lambda: dialler.send(peer, [b"head", memoryview(b"12345")[1:4]]), dialler)
    [(_, frames)] = receive(answerer, 1)
    assert [bytes(frame) for frame in frames] == [b"head", b"234"]


def test_a_large_message_arrives_whole_in_both_directions(world: World) -> None:
    dialler, peer, answerer, back = linked(world)
    large = bytes(range(256)) * (16 << 12)  # 16 MiB
    deliver(dialler, peer, b"head", large)
    assert receive(answerer, 1) == [(back, [b"head", large])]
    deliver(answerer, back, large, b"tail")
    assert receive(dialler, 1) == [(peer, [large, b"tail"])]


def test_diallers_are_told_apart_and_each_gets_its_own_answer(world: World) -> None:
    answerer, diallers = world.node(), [world.node() for _ in range(4)]
    peers = [dialler.connect(answerer.address) for dialler in diallers]
    for number, (dialler, peer) in enumerate(zip(diallers, peers, strict=True)):
        deliver(dialler, peer, b"%d" % number)
    arrived = receive(answerer, 4)
    assert len({back for back, _ in arrived}) == 4
    for back, [name] in arrived:
        deliver(answerer, back, b"you are", bytes(name))
    answers = [receive(dialler, 1)[0][1] for dialler in diallers]
    assert answers == [[b"you are", b"%d" % number] for number in range(4)]


def test_one_node_dials_several_and_is_dialled_itself(world: World) -> None:
    middle, left, right = world.node(), world.node(), world.node()
    up, down = middle.connect(left.address), middle.connect(right.address)
    into = right.connect(middle.address)
    deliver(middle, up, b"to left")
    deliver(middle, down, b"to right")
    deliver(right, into, b"to middle")
    assert [frames for _, frames in receive(left, 1)] == [[b"to left"]]
    assert [frames for _, frames in receive(right, 1)] == [[b"to right"]]
    assert [frames for _, frames in receive(middle, 1)] == [[b"to middle"]]


def test_the_same_address_is_the_same_peer(world: World) -> None:
    answerer, dialler = world.node(), world.node()
    assert dialler.connect(answerer.address) == dialler.connect(answerer.address)


# --- who is there ---------------------------------------------------------------------------------------------------


def test_a_dialler_may_be_there_before_the_node_that_it_dials(world: World) -> None:
    early = world.node()
    address = early.address
    early.close()
    dialler = world.node()
    peer = dialler.connect(address)
    dialler.send(peer, [b"into the void"])
    answerer = world.node(address)
    deliver(dialler, peer, b"hello")
    assert receive(answerer, 1)[0][1] == [b"hello"]


def test_a_dialler_finds_the_node_that_comes_back_at_the_same_address(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    address = answerer.address
    answerer.close()
    again = world.node(address)
    deadline = time.monotonic() + PATIENCE
    arrived: list[Arrived] = []
    while not arrived:  # what was sent into the broken connection may be lost
        assert time.monotonic() < deadline, "nothing came"
        dialler.send(peer, [b"hello again"])
        again.wait(0.02)
        arrived = list(again.drain())
    assert arrived[0][1] == [b"hello again"]


def test_sending_to_a_node_that_is_gone_neither_blocks_nor_raises(world: World) -> None:
    dialler, _, answerer, back = linked(world)
    deliver(answerer, back, b"welcome")
    receive(dialler, 1)
    dialler.close()
    began = time.monotonic()
    for _ in range(1000):
        answerer.send(back, [b"are you there", bytes(1000)])
    assert time.monotonic() - began < PATIENCE
    answerer.close()


def test_sending_to_a_node_that_never_was_neither_blocks_nor_raises(world: World) -> None:
    gone, dialler = world.node(), world.node()
    address = gone.address
    gone.close()
    peer = dialler.connect(address)
    began = time.monotonic()
    for _ in range(1000):
        dialler.send(peer, [bytes(1000)])
    assert time.monotonic() - began < PATIENCE


def test_a_peer_that_was_hung_up_on_is_not_heard_any_more_and_may_be_dialled_again(
    world: World,
) -> None:
    dialler, peer, answerer, _ = linked(world)
    dialler.disconnect(peer)
    again = dialler.connect(answerer.address)
    deliver(dialler, again, b"hello again")
    assert receive(answerer, 1)[0][1] == [b"hello again"]


def test_hanging_up_on_a_stranger_is_no_fault(world: World) -> None:
    world.node().disconnect("nobody")


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_reader_that_does_not_read_makes_send_refuse_and_loses_nothing(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    body = bytes(64 << 10)
    taken = refused = 0
    while refused < 200:  # full on both sides, and not only busy for a moment
        if dialler.send(peer, [b"%d" % taken, body]):
            taken, refused = taken + 1, 0
            assert taken < 2000, "more than 128 MB were taken"
        else:
            refused += 1
            dialler.wait(0.001)
    arrived = receive(answerer, taken)
    assert [int(frames[0]) for _, frames in arrived] == list(range(taken))
    deliver(dialler, peer, b"now there is room")
    assert receive(answerer, 1)[0][1] == [b"now there is room"]


def test_a_drain_ends_although_the_sender_does_not_stop(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            dialler.send(peer, [b"more"])

    sender = threading.Thread(target=flood)
    sender.start()
    try:
        for _ in range(20):
            answerer.wait(1.0)
            assert len(answerer.drain()) <= 256
    finally:
        stop.set()
        sender.join()


def test_nothing_is_here_when_nothing_was_sent(world: World) -> None:
    assert world.node().drain() == []


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_wait_ends_when_a_message_is_here(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    deliver(dialler, peer, b"news")
    began = time.monotonic()
    answerer.wait(float("inf"))
    assert time.monotonic() - began < PATIENCE
    assert receive(answerer, 1)[0][1] == [b"news"]


def test_a_wait_ends_at_once_while_a_message_is_unread(world: World) -> None:
    dialler, peer, answerer, _ = linked(world)
    deliver(dialler, peer, b"news")
    answerer.wait(PATIENCE)
    began = time.monotonic()
    answerer.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE


def test_a_wait_without_news_takes_its_time_and_no_more(world: World) -> None:
    node = world.node()
    began = time.monotonic()
    node.wait(0.05)
    assert 0.05 <= time.monotonic() - began < PATIENCE


def test_a_wait_for_a_time_that_is_over_returns(world: World) -> None:
    node = world.node()
    began = time.monotonic()
    for seconds in (0.0, -1.0, -1e9):
        node.wait(seconds)
    assert time.monotonic() - began < PATIENCE


def test_another_thread_ends_a_wait(world: World) -> None:
    node = world.node()
    waker = threading.Timer(0.05, node.wake)
    waker.start()
    began = time.monotonic()
    node.wait(float("inf"))
    waker.join()
    assert time.monotonic() - began < PATIENCE


def test_a_wake_before_the_wait_is_not_lost_even_when_the_mesh_is_drained_between(
    world: World,
) -> None:
    node = world.node()
    node.wake()
    node.drain()
    began = time.monotonic()
    node.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE


def test_many_wakes_end_one_wait(world: World) -> None:
    node = world.node()
    for _ in range(3000):
        node.wake()
    node.wait(PATIENCE)
    began = time.monotonic()
    node.wait(0.05)
    assert time.monotonic() - began >= 0.05


# --- the end ---------------------------------------------------------------------------------------------------------


def test_close_frees_the_address_at_once_and_does_not_linger_on_unsent_messages(
    world: World,
) -> None:
    dialler, peer, answerer, back = linked(world)
    address = answerer.address
    for _ in range(300):
        answerer.send(back, [bytes(64 << 10)])
        dialler.send(peer, [bytes(64 << 10)])
    began = time.monotonic()
    answerer.close()
    again = world.node(address)
    dialler.close()
    assert time.monotonic() - began < PATIENCE
    assert (again.address, again.drain()) == (address, [])


def test_what_was_not_sent_to_a_peer_that_was_hung_up_on_does_not_delay_the_close(
    world: World,
) -> None:
    dialler, peer, _reader, _ = linked(world)
    for _ in range(1000):
        dialler.send(peer, [bytes(64 << 10)])
    began = time.monotonic()
    dialler.disconnect(peer)
    dialler.close()
    assert time.monotonic() - began < PATIENCE


def test_close_may_be_said_twice_and_a_late_wake_does_no_harm(world: World) -> None:
    node = world.node()
    node.close()
    node.close()
    node.wake()


def test_an_old_node_that_closes_late_does_not_take_its_successor_along() -> None:
    network = LocalNetwork(time.monotonic)
    old = network.mesh("node")
    new, other = network.mesh("node"), network.mesh("other")
    old.close()
    other.send(other.connect("node"), [b"hello"])
    assert new.drain() == [("other", [b"hello"])]


# --- addresses of the ZeroMQ mesh ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bind", ["tcp://0.0.0.0:*", "tcp://*:*", "tcp://[::]:*", "tcp://eth0:*"])
def test_a_door_that_is_open_to_others_is_refused(bind: str) -> None:
    with pytest.raises(LocalError, match=r"is open to others: bind to loopback or ipc"):
        ZmqMesh(bind)


def test_a_door_that_is_open_to_others_can_be_asked_for() -> None:
    with closing(ZmqMesh("tcp://0.0.0.0:*", config=MeshConfig(insecure=True))) as mesh:
        assert mesh.address.startswith("tcp://0.0.0.0:")


def test_a_bind_that_fails_names_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LocalError, match=f"cannot bind {address}: Address already in use"):
            ZmqMesh(address)


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1", "carrier://pigeon"])
def test_an_address_that_is_none_is_named(address: str) -> None:
    with closing(ZmqMesh()) as mesh, pytest.raises(LocalError, match=f"cannot dial {address}: "):
        mesh.connect(address)


def test_a_node_that_only_dials_has_no_address() -> None:
    with closing(ZmqMesh()) as mesh:
        assert mesh.address == ""


def test_a_message_above_the_cap_never_arrives_and_the_next_connection_is_fine() -> None:
    with (
        closing(ZmqMesh("tcp://127.0.0.1:*", max_message=1 << 20)) as answerer,
        closing(ZmqMesh()) as dialler,
    ):
        peer = dialler.connect(answerer.address)
        deliver(dialler, peer, bytes((1 << 20) + 1))
        arrived: list[Arrived] = []

        def heard() -> bool:
            dialler.send(peer, [b"small"])
            arrived.extend(answerer.drain())
            return bool(arrived)

        until(heard, answerer)
        assert {frames[0] for _, frames in arrived} == {b"small"}


def test_what_a_stranger_shouts_at_the_port_is_not_a_message() -> None:
    with closing(ZmqMesh("tcp://127.0.0.1:*")) as answerer, closing(ZmqMesh()) as dialler:
        port = int(answerer.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(2000))
            deliver(dialler, dialler.connect(answerer.address), b"hello")
            assert receive(answerer, 1)[0][1] == [b"hello"]
