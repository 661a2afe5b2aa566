"""Names of hosts become addresses, all of them, and follow the host when it moves."""

import threading

import pytest

from protocol.names import Names, expanded, host_of, lookup
from protocol.process import Peers


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("tcp://drafter-0.drafters:7400", "drafter-0.drafters"),
        ("gpu-box@tcp://drafters:7400", "drafters"),
        ("tcp://10.0.0.7:7400", ""),
        ("tcp://[fd00::7]:7400", ""),
        ("tcp://[fe80::7%eth0]:7400", ""),
        ("ipc:///tmp/drafter", ""),
        ("drafter-0", ""),
    ],
)
def test_only_names_are_looked_up(address: str, host: str) -> None:
    assert host_of(address) == host


def test_a_name_of_several_nodes_is_several_peers() -> None:
    known = {"drafters": ("10.0.0.1", "10.0.0.2"), "six": ("fd00::7",)}
    wanted = (
        "gpu@tcp://drafters:7400",
        "tcp://10.0.0.9:1",
        "tcp://six:2",
        "tcp://unknown:3",
        "tcp://10.0.0.9:1",
    )
    assert expanded(wanted, known) == (
        "gpu@tcp://10.0.0.1:7400",
        "gpu@tcp://10.0.0.2:7400",
        "tcp://10.0.0.9:1",
        "tcp://[fd00::7]:2",
    )


class Phonebook:
    """A resolver whose answers can be changed; knows nobody else."""

    def __init__(self, **entries: list[str]) -> None:
        self.entries = entries

    def __call__(self, host: str) -> list[str]:
        try:
            return self.entries[host]
        except KeyError:
            raise OSError(f"no such host: {host}") from None


def test_a_name_that_moves_is_dialled_where_it_is() -> None:
    book = Phonebook(drafter=["10.0.0.1"])
    names = Names(lambda _: None, book)
    wanted = ["tcp://drafter:7400"]
    assert names.look(wanted)
    assert not names.look(wanted), "nothing moved"
    book.entries["drafter"] = ["10.0.0.2"]
    assert names.look(wanted)
    assert names._known == {"drafter": ["10.0.0.2"]}


def test_a_name_that_nobody_knows_now_keeps_its_addresses() -> None:
    book = Phonebook(drafter=["10.0.0.1"])
    names = Names(lambda _: None, book)
    names.look(["tcp://drafter:7400"])
    del book.entries["drafter"]
    assert not names.look(["tcp://drafter:7400"])
    assert names._known == {"drafter": ["10.0.0.1"]}


def test_the_list_comes_again_when_its_names_are_known() -> None:
    came = threading.Event()
    heard: list[Peers] = []

    def put(peers: Peers) -> None:
        heard.append(peers)
        came.set()

    names = Names(put, Phonebook(drafter=["10.0.0.1"]))
    peers = Peers(("tcp://drafter:7400", "tcp://10.0.0.9:1"))
    assert names.numeric(peers) == Peers(("tcp://10.0.0.9:1",))
    assert came.wait(10)
    assert heard == [peers], "the list itself, to be turned into numbers anew"
    assert names.numeric(peers) == Peers(("tcp://10.0.0.1:7400", "tcp://10.0.0.9:1"))


def test_a_name_that_cannot_be_one_harms_no_other() -> None:
    names = Names(lambda _: None, lambda host: lookup(host) if len(host) > 60 else ["10.0.0.1"])
    assert names.look([f"tcp://{'a' * 70}:1", "tcp://drafter:1"])
    assert names._known["drafter"] == ["10.0.0.1"]


def test_numbers_need_no_thread() -> None:
    names = Names(lambda _: None, Phonebook())
    assert names.numeric(Peers(("tcp://10.0.0.9:1",))) == Peers(("tcp://10.0.0.9:1",))
    assert names._thread is None


def test_the_system_knows_this_machine_once() -> None:
    assert lookup("localhost") == ["127.0.0.1"]
