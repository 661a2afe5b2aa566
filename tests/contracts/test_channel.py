"""One contract for all channels of KV pages."""

import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import structs

from kvtransfer.channel import CHUNK_BYTES, PLACES, Receiver, Sender
from kvtransfer.channels import CHANNELS, common
from protocol.errors import LocalError, PeerError
from protocol.messages import Parcel
from tests.kvtransfer.cases import CASES


@pytest.fixture(params=CASES)
def channel(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def ends(channel: str) -> Iterator[tuple[Sender, Receiver]]:
    sender = CHANNELS[channel].sender()
    receiver = CHANNELS[channel].receiver(sender.hint)
    yield sender, receiver
    receiver.close()
    sender.close()


def put(sender: Sender, data: bytes) -> Parcel:
    room = sender.room()
    assert room is not None
    room[: len(data)] = data
    return sender.seal(len(data))


def test_a_chunk_arrives_as_it_was(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends
    for data in (b"x", bytes(range(256)) * 9, b"\0" * CHUNK_BYTES):
        parcel = put(sender, data)
        assert bytes(receiver.open(parcel)) == data
        sender.give_back(parcel.place)


def test_chunks_on_their_way_do_not_overwrite_each_other(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends
    parcels = [put(sender, bytes([number]) * 1000) for number in range(PLACES)]
    for number, parcel in reversed(list(enumerate(parcels))):
        assert bytes(receiver.open(parcel)) == bytes([number]) * 1000


def test_there_are_so_many_places_and_one_that_is_given_back_is_filled_again(
    ends: tuple[Sender, Receiver],
) -> None:
    sender, receiver = ends
    parcels = [put(sender, b"first") for _ in range(PLACES)]
    assert sender.room() is None
    with pytest.raises(LocalError):
        sender.seal(5)
    sender.give_back(parcels[2].place)
    again = put(sender, b"again")
    assert sender.room() is None
    assert bytes(receiver.open(again)) == b"again"
    assert bytes(receiver.open(parcels[1])) == b"first"


def test_a_place_that_is_not_away_cannot_be_given_back(ends: tuple[Sender, Receiver]) -> None:
    sender, _ = ends
    parcel = put(sender, b"once")
    sender.give_back(parcel.place)
    for place in (parcel.place, PLACES + 3):
        with pytest.raises(PeerError, match="not away"):
            sender.give_back(place)


def test_room_that_was_not_sealed_is_the_same_room(ends: tuple[Sender, Receiver]) -> None:
    sender, receiver = ends
    first, second = sender.room(), sender.room()
    assert first is not None
    assert second is not None
    assert len(first) == CHUNK_BYTES
    first[:4] = b"abcd"
    assert bytes(second[:4]) == b"abcd"
    assert bytes(receiver.open(sender.seal(4))) == b"abcd"


@pytest.mark.parametrize("size", [0, CHUNK_BYTES + 1])
def test_a_chunk_that_does_not_fit_never_leaves(ends: tuple[Sender, Receiver], size: int) -> None:
    sender, _ = ends
    with pytest.raises(LocalError):
        sender.seal(size)
    assert sender.room() is not None


def test_a_receiver_does_not_follow_a_hint_that_leads_nowhere(channel: str) -> None:
    with pytest.raises(PeerError):
        CHANNELS[channel].receiver(b"\x93nonsense")


def test_the_best_channel_that_both_have_comes_first() -> None:
    assert common(["carrier pigeon", *reversed(tuple(CHANNELS))]) == tuple(CHANNELS)
    assert common(["zmq"]) == ("zmq",)
    assert common([]) == ()


# --- what one channel promises alone -----------------------------------------------------------------------------


def test_bytes_that_changed_in_a_frame_are_noticed() -> None:
    ends = CHANNELS["zmq"]
    sender, receiver = ends.sender(), ends.receiver(b"")
    parcel = put(sender, b"payload")
    assert parcel.data is not None
    parcel.data.data[3] ^= 1  # type: ignore[index]  # it is a view of the sender's buffer
    with pytest.raises(PeerError, match="damaged"):
        receiver.open(parcel)
    with pytest.raises(PeerError, match="without its 8 bytes"):
        receiver.open(structs.replace(parcel, size=8))
    with pytest.raises(PeerError, match="without its 7 bytes"):
        receiver.open(structs.replace(parcel, data=None))


shm = pytest.mark.skipif("shm" not in CHANNELS, reason="memory without a name is Linux's")


@shm
def test_a_parcel_that_points_beside_the_memory_is_refused() -> None:
    ends = CHANNELS["shm"]
    sender = ends.sender()
    receiver = ends.receiver(sender.hint)
    for parcel in (Parcel(PLACES, 1), Parcel(0, CHUNK_BYTES + 1)):
        with pytest.raises(PeerError, match="no chunk"):
            receiver.open(parcel)
    sender.close()


@shm
def test_the_memory_of_another_machine_with_the_same_numbers_is_not_taken_for_ours() -> None:
    ends = CHANNELS["shm"]
    sender = ends.sender()
    process, file, token = msgspec.msgpack.decode(sender.hint)
    with pytest.raises(PeerError, match="another machine"):
        ends.receiver(msgspec.msgpack.encode([process, file, bytes(len(token))]))
    with pytest.raises(PeerError, match="cannot be reached"):  # standard input is no such memory
        ends.receiver(msgspec.msgpack.encode([process, 0, token]))
    sender.close()
    with pytest.raises(PeerError, match="cannot be reached"):
        ends.receiver(msgspec.msgpack.encode([process, 987654, token]))


SENDER = """
import sys
from kvtransfer.channels import CHANNELS
sender = CHANNELS[sys.argv[1]].sender()
sender.room()[:5] = b"alive"
sender.seal(5)
print(sender.hint.hex(), flush=True)
sys.stdin.read()
"""


@shm
def test_memory_outlives_a_sender_that_is_killed_only_while_it_is_read() -> None:
    ends = CHANNELS["shm"]
    with subprocess.Popen(
        [sys.executable, "-c", SENDER, "shm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        hint = bytes.fromhex(child.stdout.readline().decode())
        receiver = ends.receiver(hint)
        assert bytes(receiver.open(Parcel(0, 5))) == b"alive"
        child.kill()
        child.wait()
        assert bytes(receiver.open(Parcel(0, 5))) == b"alive"  # no bus error, no signal
        with pytest.raises(PeerError, match="cannot be reached"):  # no name is left behind
            ends.receiver(hint)


nixl = pytest.mark.skipif("nixl" not in CHANNELS, reason="pip install 'draftmesh[nixl]'")


@nixl
@pytest.mark.full
def test_places_of_another_process_are_read_until_it_is_gone() -> None:
    ends = CHANNELS["nixl"]
    with subprocess.Popen(
        [sys.executable, "-c", SENDER, "nixl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        receiver = ends.receiver(bytes.fromhex(child.stdout.readline().decode()))
        assert bytes(receiver.open(Parcel(0, 5))) == b"alive"
        assert bytes(receiver.open(Parcel(PLACES - 1, CHUNK_BYTES))) == bytes(CHUNK_BYTES)
        child.kill()
        child.wait()
        with pytest.raises(PeerError, match="place 0"):
            receiver.open(Parcel(0, 5))
        receiver.close()
        receiver.close()


@nixl
@pytest.mark.full
def test_a_parcel_beside_the_places_is_not_read() -> None:
    sender = CHANNELS["nixl"].sender()
    receiver = CHANNELS["nixl"].receiver(sender.hint)
    for parcel in (Parcel(PLACES, 1), Parcel(0, CHUNK_BYTES + 1)):
        with pytest.raises(PeerError, match="no chunk"):
            receiver.open(parcel)
    receiver.close()
    sender.close()
