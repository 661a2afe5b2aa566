"""Nobody gets in without a key that is allowed, and whoever is refused is told why in the log."""

import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from protocol import keys
from protocol.config import MeshConfig
from protocol.errors import LocalError
from protocol.keys import KeyRing, read_public
from protocol.mesh import Frames, Peer
from protocol.zmq_mesh import ZmqMesh, parted

PATIENCE = 10.0


@pytest.fixture
def ours(tmp_path: Path) -> KeyRing:
    ring = KeyRing(tmp_path / "ours")
    ring.new()
    return ring


@pytest.fixture
def theirs(tmp_path: Path) -> KeyRing:
    ring = KeyRing(tmp_path / "theirs")
    ring.new()
    return ring


class Doors:
    """Makes meshes and closes them all."""

    def __init__(self) -> None:
        self.made: list[ZmqMesh] = []

    def open(self, bind: str = "", ring: KeyRing | None = None) -> ZmqMesh:
        self.made.append(ZmqMesh(bind, MeshConfig(keys=ring.folder if ring else None)))
        return self.made[-1]


@pytest.fixture
def doors() -> Iterator[Doors]:
    made = Doors()
    yield made
    for mesh in made.made:
        mesh.close()


def heard(answerer: ZmqMesh, dialler: ZmqMesh, peer: Peer, frames: Frames) -> Frames | None:
    """What arrives of a message that is said until it is taken; None if nothing does before somebody complains."""
    deadline = time.monotonic() + PATIENCE
    sent = False
    while time.monotonic() < deadline:
        sent = sent or dialler.send(peer, frames)
        for _, arrived in answerer.drain():
            return arrived
        answerer.wait(0.01)
        dialler.wait(0.01)
    return None


def complaint(caplog: pytest.LogCaptureFixture, dialler: ZmqMesh) -> str:
    """The first thing that is logged about a handshake."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        dialler.wait(0.02)
        for record in caplog.records:
            if "let us in" in record.message:
                return record.message
    raise AssertionError("nobody complained")


def test_nodes_that_share_a_folder_hear_each_other(doors: Doors, ours: KeyRing) -> None:
    answerer, dialler = doors.open("tcp://127.0.0.1:*", ours), doors.open("", ours)
    peer = dialler.connect(answerer.address)
    assert heard(answerer, dialler, peer, [b"hello", b"you"]) == [b"hello", b"you"]


def test_nodes_that_allow_each_other_by_name_hear_each_other(
    doors: Doors, ours: KeyRing, theirs: KeyRing
) -> None:
    ours.allow("gpu-box", theirs.own().public)
    theirs.allow("laptop", ours.own().public)
    answerer, dialler = doors.open("tcp://127.0.0.1:*", theirs), doors.open("", ours)
    peer = dialler.connect(f"gpu-box@{answerer.address}")
    assert heard(answerer, dialler, peer, [b"hello"]) == [b"hello"]


def test_an_unknown_key_is_refused_once_in_the_log_of_both_sides(
    doors: Doors, ours: KeyRing, theirs: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    ours.allow("gpu-box", theirs.own().public)
    with caplog.at_level(logging.WARNING):
        answerer, dialler = doors.open("tcp://127.0.0.1:*", theirs), doors.open("", ours)
        peer = dialler.connect(f"gpu-box@{answerer.address}")
        text = complaint(caplog, dialler)
        assert text == f"{answerer.address} does not let us in: it does not allow our key"
        for _ in range(20):  # reconnects meanwhile
            dialler.wait(0.02)
    assert not dialler.send(peer, [b"hello"])
    assert answerer.drain() == []
    refused = [each.message for each in caplog.records if "refused a node" in each.message]
    assert refused == [
        f"refused a node with the key {ours.own().public.decode()}, which is not allowed"
    ]
    assert sum("let us in" in each.message for each in caplog.records) == 1


def test_a_node_is_let_in_as_soon_as_it_is_allowed(
    doors: Doors, ours: KeyRing, theirs: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    ours.allow("gpu-box", theirs.own().public)
    answerer, dialler = doors.open("tcp://127.0.0.1:*", theirs), doors.open("", ours)
    peer = dialler.connect(f"gpu-box@{answerer.address}")
    complaint(caplog, dialler)
    theirs.allow("laptop", ours.own().public)
    dialler.disconnect(peer)
    peer = dialler.connect(f"gpu-box@{answerer.address}")
    assert heard(answerer, dialler, peer, [b"hello"]) == [b"hello"]


def test_a_broken_folder_lets_nobody_in_until_it_is_mended(
    doors: Doors, ours: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    answerer, dialler = doors.open("tcp://127.0.0.1:*", ours), doors.open("", ours)
    broken = ours.folder / "allowed" / "bad.key"
    broken.parent.mkdir()
    broken.write_text("nonsense")
    address = answerer.address
    bystander = KeyRing(ours.folder.parent / "bystander")
    bystander.new()
    theirs = doors.open("", bystander)
    bystander.allow("ours", ours.own().public)
    theirs.connect(f"ours@{address}")
    complaint(caplog, theirs)
    assert any("nobody is let in" in each.message for each in caplog.records)
    broken.unlink()
    assert heard(answerer, dialler, dialler.connect(address), [b"hello"]) == [b"hello"]


def test_another_key_than_we_think_is_no_link(
    doors: Doors, ours: KeyRing, theirs: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    answerer, dialler = doors.open("tcp://127.0.0.1:*", theirs), doors.open("", ours)
    peer = dialler.connect(answerer.address)
    assert "keys that do not fit" in complaint(caplog, dialler)
    assert not dialler.send(peer, [b"hello"])


def test_a_node_without_keys_does_not_get_in(
    doors: Doors, ours: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    answerer, dialler = doors.open("tcp://127.0.0.1:*", ours), doors.open()
    peer = dialler.connect(answerer.address)
    assert "none on one side" in complaint(caplog, dialler)
    assert not dialler.send(peer, [b"hello"])
    assert answerer.drain() == []


def test_a_wide_bind_needs_keys(ours: KeyRing) -> None:
    with pytest.raises(LocalError, match="open to others"):
        ZmqMesh("tcp://0.0.0.0:*")
    with_keys = ZmqMesh("tcp://0.0.0.0:*", MeshConfig(keys=ours.folder))
    with_keys.close()


# --- the files -------------------------------------------------------------------------------------------------


def test_a_key_is_for_its_owners_eyes_only(ours: KeyRing) -> None:
    path = ours.folder / "own.key_secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ours.folder.stat().st_mode) == 0o700
    path.chmod(0o640)
    with pytest.raises(LocalError, match="others may read"):
        ours.own()


@pytest.mark.parametrize(
    ("mode", "owner", "open_to_others"),
    [
        (0o100600, "we", False),
        (0o100640, "we", True),
        (0o100440, "root", False),  # as Kubernetes mounts a Secret for our group
        (0o100444, "root", True),
    ],
)
def test_a_key_that_is_given_to_our_group_is_taken(
    mode: int,
    owner: str,
    open_to_others: bool,
) -> None:
    user = os.geteuid() + (owner == "root")
    found = os.stat_result((mode, 0, 0, 1, user, os.getegid(), 1, 0, 0, 0))
    assert keys._too_open(found) == open_to_others


def test_both_halves_belong_together_and_the_public_file_has_no_secret(ours: KeyRing) -> None:
    pair = ours.own()
    assert zmq.curve_public(pair.secret) == pair.public
    assert read_public(str(ours.folder / "own.key")) == pair.public
    assert pair.secret.decode() not in (ours.folder / "own.key").read_text()


def test_a_key_is_never_made_over_another(ours: KeyRing) -> None:
    before = ours.own()
    with pytest.raises(LocalError, match="already"):
        ours.new()
    assert ours.own() == before


def test_no_key_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="orchestrator keys new"):
        ZmqMesh("", MeshConfig(keys=tmp_path / "none"))


@pytest.mark.parametrize("name", ["", "own", "../own", "a b", "a@b", "a/b"])
def test_names_of_keys_are_plain(ours: KeyRing, theirs: KeyRing, name: str) -> None:
    with pytest.raises(LocalError, match="name of a key"):
        ours.allow(name, theirs.own().public)


@pytest.mark.parametrize("key", ["", "short", '"' * 40, "é" * 40, "0" * 41])
def test_what_is_no_key_is_not_allowed(ours: KeyRing, key: str) -> None:
    with pytest.raises(LocalError, match="no public key"):
        read_public(key)
    assert list(ours.allowed().values()) == ["own"]


def test_a_key_has_one_name(ours: KeyRing, theirs: KeyRing) -> None:
    ours.allow("a", theirs.own().public)
    with pytest.raises(LocalError, match="there already, as 'a'"):
        ours.allow("b", theirs.own().public)
    assert ours.named("a") == theirs.own().public
    with pytest.raises(LocalError, match="no key is called 'b'"):
        ours.named("b")


def test_a_broken_file_is_named(ours: KeyRing) -> None:
    (ours.folder / "allowed").mkdir()
    (ours.folder / "allowed" / "bad.key").write_text("nonsense")
    with pytest.raises(LocalError, match=r"bad\.key"):
        ours.allowed()


def test_an_address_may_say_whose_key_it_has() -> None:
    assert parted("gpu-box@tcp://10.0.0.7:7400") == ("gpu-box", "tcp://10.0.0.7:7400")
    assert parted("tcp://10.0.0.7:7400") == ("", "tcp://10.0.0.7:7400")
    assert parted("ipc:///tmp/a@b") == ("", "ipc:///tmp/a@b")
