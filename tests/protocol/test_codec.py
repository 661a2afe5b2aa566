"""Messages to bytes and back; what cannot be right is refused before anything is made of it."""

import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any, Final, get_args

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codec import HEADER, MAGIC, Codec, Frame, Kind
from protocol.config import LinkConfig
from protocol.errors import LocalError, PeerError
from protocol.messages import (
    PROTOCOL_VERSION,
    AnyMessage,
    DraftContext,
    DraftTailStream,
    Emit,
    Ending,
    Heartbeat,
    Submit,
)
from protocol.tensor import Tensor
from tests.protocol import golden
from tests.protocol.golden import HIDDEN, MESSAGES

CODEC = Codec(LinkConfig())
NAN, INF = float("nan"), float("inf")


def data(*arrays: Any, tensors: Sequence[bytes] = ()) -> list[bytes]:
    """A frame of hand-made messages, packed by the other MessagePack library."""
    return raw(msgpack.packb(arrays), tensors)


def raw(
    payload: bytes,
    parts: Sequence[bytes] = (),
    *,
    magic: bytes = MAGIC,
    version: int = PROTOCOL_VERSION,
    kind: int = Kind.DATA,
    tensors: int | None = None,
) -> list[bytes]:
    count = len(parts) if tensors is None else tensors
    return [HEADER.pack(magic, version, kind, count, 5, 6, 7), payload, *parts]


def messages(frames: Sequence[bytes]) -> tuple[AnyMessage, ...]:
    return CODEC.decode(frames).messages


# --- there and back --------------------------------------------------------------------------------------------


def test_every_message_type_has_an_example() -> None:
    assert {type(message) for message in MESSAGES.values()} == set(get_args(AnyMessage))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_back_as_it_was(name: str) -> None:
    frames = CODEC.encode(Kind.DATA, 5, 6, 7, (MESSAGES[name],))
    size = sum(map(len, frames[1:]))
    assert CODEC.decode(frames) == Frame(Kind.DATA, 5, 6, 7, (MESSAGES[name],), size)


def test_messages_of_a_frame_keep_their_order_and_their_tensors() -> None:
    batch = tuple(MESSAGES.values())
    assert messages([bytes(part) for part in CODEC.encode(Kind.DATA, 1, 1, 1, batch)]) == batch


@pytest.mark.parametrize("kind", Kind)
def test_the_header_survives_at_its_limits(kind: Kind) -> None:
    most = 2**64 - 1
    frame = CODEC.decode(CODEC.encode(kind, most, most - 1, most - 2, (Heartbeat(),)))
    assert (frame.kind, frame.link, frame.seq, frame.ack) == (kind, most, most - 1, most - 2)


SIZES: Final = {
    "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "uint8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip


@pytest.mark.parametrize("dtype", SIZES)
def test_tensors_travel_as_raw_bytes_beside_the_payload(dtype: str) -> None:
    values = bytes(range(6 * SIZES[dtype]))
    context = DraftContext(1, 1, 0, Tensor(dtype, (3, 2), memoryview(values)))
    frames = CODEC.encode(Kind.DATA, 1, 1, 1, (context,))
    assert frames[2:] == [values]
    assert messages([bytes(part) for part in frames]) == (context,)


# --- the bytes themselves ----------------------------------------------------------------------------------------


def test_the_bytes_of_every_message_are_what_they_always_were() -> None:
    known = dict(line.split() for line in golden.FILE.read_text().splitlines())
    assert {name: golden.payload(each).hex() for name, each in MESSAGES.items()} == known


@pytest.mark.parametrize("name", MESSAGES)
def test_the_recorded_bytes_still_mean_the_same(name: str) -> None:
    known = dict(line.split() for line in golden.FILE.read_text().splitlines())
    tensors = [bytes(part) for part in CODEC.encode(Kind.DATA, 1, 1, 1, (MESSAGES[name],))[2:]]
    assert messages(raw(bytes.fromhex(known[name]), tensors)) == (MESSAGES[name],)


WRITTEN_OUT: dict[str, list[Any]] = {
    "hello": ["Hello", 2**64 - 1, "verifier", "verifier-0", 1, 1,
        ["w", "t", 32000], ["law", "med"], [16, 1048576], ["hidden"]],
    "welcome": ["Welcome", 7, 9, "drafter", "drafter-0", [8, 65536], [2048, 64, 32],
        "suffix", ["hidden"], ["parents"], ["w2", "t", 32000]],
    "heartbeat": ["Heartbeat", "draining", 3, 1_500_000, 1_400_000, 2_500],
    "report": ["Report", "verifier-0", "verifier", 7, [
        {"rounds": {"": 5}, "plain_rounds": {"late": 1, "no_tail": 0}},
        {"round_trip_seconds": {"drafter-0": 0.25}},
        {"step_seconds": [[0.5, 1.0], [1, 2, 0], 2.5]}]],
    "report-short": ["Report", "drafter-0", "drafter", 1, [{}, {}, {}]],
    "refuse": ["Refuse", "full", "64 mirrors are open", 12, 3, "tokens"],
    "blob": ["Blob", "sha", 4, 1024, b"\x00\xff\x10"],
    "submit": ["Submit", 12, [1, 200, 70000], [64, 2, True, ["\n\n", "Ω"], [5], False],
        [0.5, 40, 0.75, 0.125, 2**63, 1.5, 0.25, -0.5, [[7, -2.5]], [1, 2], [[3, 4], [5]]],
        2, "law", -1, 1.5, "00-aa-bb-01", 2, 0, ["regex", "a+é"]],
    "emit": ["Emit", 12, 1, [5, 6], "hé", [True, False], [[-0.5, [[5, -0.5]]], [-2.0, []]], []],
    "done": ["Done", 12, 1, "stop", 3, 2, [1, 4, 1, 16, [[4, 1, 1]], ""], "why"],
    "abort": ["Abort", 12, "client gone"],
    "draft-sync": ["DraftSync", 12, 2, [1, 2, 3], [4], 17,
        [0.0, 0, 1.0, 0.0, 3, 1.0, 0.0, 0.0, [], [], []], "law", 1,
        False, 8, "tr", 2, [0, "bfloat16", [2, 3]], False],
    "draft-context": ["DraftContext", 12, 2, 2, [0, "bfloat16", [2, 3]]],
    "verify-commit": ["VerifyCommit", 12, 2, 1, [8, 9], 19, 3, [0, "bfloat16", [2, 3]]],
    "verify-commit-short": ["VerifyCommit", 12, 2, 1, [8], 19, 0, None],
    "draft-tail": ["DraftTailStream", 12, 2, 1, 3, [7, 8], [0.5, 0.25],
        [0, "int32", [1, 2]], [1, "float32", [1, 2]], [-1, 0]],
    "draft-close": ["DraftClose", 12, 2, "stop"],
    "corpus-add": ["CorpusAdd", "docs", [[1, 2], [3]], True],
    "corpus-report": ["CorpusReport", [["docs", 2, 3, True]], "none"],
    "reset": ["Reset"],
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_another_messagepack_library_reads_the_fields_in_their_order(name: str) -> None:
    assert msgpack.unpackb(golden.payload(MESSAGES[name])) == [WRITTEN_OUT[name]]


def test_the_header_is_32_bytes_in_network_order() -> None:
    header = CODEC.encode(Kind.BEAT, 0x0102, 0x0304, 0x0506, (Heartbeat(),))[0]
    assert bytes(header) == b"DMSH\x01\x04\x00\x00" + struct.pack("!QQQ", 0x0102, 0x0304, 0x0506)


# --- newer and older peers -----------------------------------------------------------------------------------------


def test_fields_of_a_newer_peer_are_ignored() -> None:
    newer = [
        "Done",
        12,
        1,
        "stop",
        3,
        2,
        [1, 4, 1, 16, [[4, 1, 1]], "", "new"],
        "why",
        {"new": [1, 2]},
        None,
    ]
    assert messages(data(newer)) == (MESSAGES["done"],)


def test_fields_that_an_older_peer_does_not_know_have_defaults() -> None:
    assert messages(data(["Submit", 1, [1], [1]])) == (Submit(1, (1,), Ending(1)),)


def test_a_missing_field_without_default_is_refused() -> None:
    with pytest.raises(PeerError, match="at least length 6, got 5"):
        messages(data(["VerifyCommit", 12, 2, 1, [8]]))


# --- what is no frame ------------------------------------------------------------------------------------------------

HEARTBEAT = msgpack.packb([["Heartbeat", "ready", 0]])

NO_FRAMES: dict[str, tuple[Sequence[bytes], str]] = {
    "nothing": ([], "not a frame"),
    "one part": ([raw(HEARTBEAT)[0]], "not a frame"),
    "short header": ([raw(HEARTBEAT)[0][:-1], HEARTBEAT], "not a frame"),
    "long header": ([raw(HEARTBEAT)[0] + b"\0", HEARTBEAT], "not a frame"),
    "magic": (raw(HEARTBEAT, magic=b"HTTP"), "not a frame"),
    "version": (raw(HEARTBEAT, version=2), "protocol version 2, this side speaks 1"),
    "kind 0": (raw(HEARTBEAT, kind=0), "no frame kind 0"),
    "kind 6": (raw(HEARTBEAT, kind=6), "no frame kind 6"),
    "fewer tensors": (raw(HEARTBEAT, tensors=1), "0 tensor frames, header says 1"),
    "more tensors": (raw(HEARTBEAT, [b"x"], tensors=0), "1 tensor frames, header says 0"),
    "empty payload": (raw(b""), "payload: Input data was truncated"),
    "cut payload": (raw(HEARTBEAT[:-1]), "payload: Input data was truncated"),
    "trailing bytes": (raw(HEARTBEAT + b"\x00"), "payload: .*trailing characters"),
    "no array": (raw(msgpack.packb({"Heartbeat": 1})), "payload: Expected `array`, got `object`"),
    "unknown message": (data(["Exec", "rm"]), "payload: Invalid value 'Exec'"),
    "a part is no message": (data(["Sampling", 0.0]), "payload: Invalid value 'Sampling'"),
    "no name": (data([1, 2]), "payload: Expected `str`, got `int`"),
    "no utf-8": (raw(b"\x91\x92\xa9Heartbeat\xa2\xff\xfe"), "payload: Invalid UTF-8"),
    "pickle": (raw(b"\x80\x04\x95\x1d\x00\x00\x00cposix\nsystem\n"), "payload: "),
    "extension type": (raw(b"\x91\xc7\x01\x05x"), "payload: "),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_FRAMES)
def test_what_is_no_frame_is_refused_with_the_reason(name: str) -> None:
    frames, reason = NO_FRAMES[name]
    with pytest.raises(PeerError, match=reason):
        CODEC.decode(frames)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(PeerError, match="payload: "):
        CODEC.decode(raw(b"\x91\x92\xa5Reset" + b"\x91" * 100_000 + b"\xc0"))


# --- values that no core should see -------------------------------------------------------------------------------


def tail(**fields: Any) -> list[Any]:
    known = {"request": 1, "epoch": 1, "base": 0, "start": 0, "tokens": [1], "confidences": [0.5]}
    return ["DraftTailStream", *(known | fields).values()]


def submit(sampling: Sequence[Any] = (), ending: Sequence[Any] = (1,), **fields: Any) -> list[Any]:
    known = {"request": 1, "tokens": [1], "ending": ending, "sampling": sampling, "choices": 1}
    later = {"adapter": "", "priority": 0, "deadline": None}
    return ["Submit", *(known | later | fields).values()]


NO_SCORES: dict[str, Any] = {"trace": "", "logprobs": None, "prompt_logprobs": None}
BAD_VALUES: dict[str, list[Any]] = {
    "confidence nan": tail(confidences=[NAN]),
    "confidence infinite": tail(confidences=[INF]),
    "confidence negative": tail(confidences=[-0.01]),
    "confidence above 1": tail(confidences=[1.01]),
    "confidence 2": tail(confidences=[2]),
    "confidence text": tail(confidences=["0.5"]),
    "token negative": tail(tokens=[-1]),
    "token too large": tail(tokens=[2**31]),
    "token fraction": tail(tokens=[1.5]),
    "token bool": tail(tokens=[True]),
    "token none": tail(tokens=[None]),
    "request negative": tail(request=-1),
    "start negative": tail(start=-1),
    "epoch text": tail(epoch="1"),
    "temperature nan": submit(sampling=[NAN]),
    "temperature infinite": submit(sampling=[INF]),
    "temperature negative": submit(sampling=[-1.0]),
    "temperature too large": submit(sampling=[100.5]),
    "top_k negative": submit(sampling=[1.0, -1]),
    "top_p nan": submit(sampling=[1.0, 0, NAN]),
    "top_p zero": submit(sampling=[1.0, 0, 0.0]),
    "top_p above 1": submit(sampling=[1.0, 0, 1.5]),
    "min_p nan": submit(sampling=[1.0, 0, 1.0, NAN]),
    "seed negative": submit(sampling=[1.0, 0, 1.0, 0.0, -1]),
    "repetition zero": submit(sampling=[1.0, 0, 1.0, 0.0, 1, 0.0]),
    "presence nan": submit(sampling=[1.0, 0, 1.0, 0.0, 1, 1.0, NAN]),
    "frequency too large": submit(sampling=[1.0, 0, 1.0, 0.0, 1, 1.0, 0.0, 2.5]),
    "bias infinite": submit(sampling=[1.0, 0, 1.0, 0.0, 1, 1.0, 0.0, 0.0, [[1, INF]]]),
    "bias too large": submit(sampling=[1.0, 0, 1.0, 0.0, 1, 1.0, 0.0, 0.0, [[1, 101.0]]]),
    "bad word empty": submit(sampling=[1.0, 0, 1.0, 0.0, 1, 1.0, 0.0, 0.0, [], [], [[]]]),
    "max_tokens zero": submit(ending=[0]),
    "max_tokens too large": submit(ending=[2**31]),
    "stop empty": submit(ending=[1, 0, False, [""]]),
    "stop too long": submit(ending=[1, 0, False, ["x" * 1025]]),
    "stop token negative": submit(ending=[1, 0, False, [], [-1]]),
    "choices zero": submit(choices=0),
    "choices too many": submit(choices=129),
    "priority too large": submit(priority=2**31),
    "deadline nan": submit(deadline=NAN),
    "deadline infinite": submit(deadline=INF),
    "deadline negative": submit(deadline=-1.0),
    "grammar without a kind": submit(**NO_SCORES, grammar=[]),
    "grammar too long": submit(**NO_SCORES, grammar=["regex", "a" * (2**18 + 1)]),
    "grammar of numbers": submit(**NO_SCORES, grammar=["regex", 5]),
    "commit empty": ["VerifyCommit", 1, 1, 0, [], 4],
    "window shut": ["Hello", 1, "v", "v-0", 1, 1, ["", "", 0], [], [0, 1]],
    "name too long": ["Hello", 1, "v", "n" * 4097],
    "corpus unnamed": ["CorpusAdd", "", []],
    "count negative": ["Report", "v", "verifier", 1, [{"rounds": {"": -1}}]],
    "count fraction": ["Report", "v", "verifier", 1, [{"rounds": {"": 1.5}}]],
    "gauge nan": ["Report", "v", "verifier", 1, [{}, {"links": {"": NAN}}]],
    "gauge infinite": ["Report", "v", "verifier", 1, [{}, {"links": {"": INF}}]],
    "too many labels": [
        "Report",
        "v",
        "verifier",
        1,
        [{"rounds": {str(n): 1 for n in range(513)}}],
    ],
    "histogram without counts": ["Report", "v", "verifier", 1, [{}, {}, {"x": [[1.0], []]}]],
    "bound nan": ["Report", "v", "verifier", 1, [{}, {}, {"x": [[NAN], [1, 1]]}]],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_out_of_its_range_is_refused(name: str) -> None:
    with pytest.raises(PeerError, match="payload: "):
        messages(data(BAD_VALUES[name]))


def test_good_neighbours_of_bad_values_are_taken() -> None:
    assert messages(data(tail(confidences=[0, 1.0][:1], tokens=[2**31 - 1]))) == (
        DraftTailStream(1, 1, 0, 0, (2**31 - 1,), (0.0,)),
    )
    assert len(messages(data(submit(sampling=[100.0, 0, 1e-9, 1.0, 2**64 - 1], deadline=0.0)))) == 1


BAD_TENSORS: dict[str, tuple[list[Any], str]] = {
    "dtype": ([0, "float64", [2, 3]], "no dtype 'float64'"),
    "object dtype": ([0, "O", [2, 3]], "no dtype 'O'"),
    "shape too small": ([0, "bfloat16", [2, 2]], "12 bytes for bfloat16"),
    "shape too large": ([0, "bfloat16", [2**40, 2**40]], "12 bytes for bfloat16"),
    "no dimension": ([0, "bfloat16", []], "12 bytes for bfloat16"),
    "size zero": ([0, "bfloat16", [0, 2**62, 2**62]], "not a list of a few sizes"),
    "size negative": ([0, "bfloat16", [-2, -3]], "not a list of a few sizes"),
    "size bool": ([0, "bfloat16", [True, 6]], "not a list of a few sizes"),
    "size fraction": ([0, "bfloat16", [2.0, 3]], "not a list of a few sizes"),
    "many dimensions": ([0, "bfloat16", [2, 3] + [1] * 7], "not a list of a few sizes"),
    "no such frame": ([1, "bfloat16", [2, 3]], "wants"),
    "frame negative": ([-1, "bfloat16", [2, 3]], "wants"),
    "no list": ([0, "bfloat16", 6], "wants"),
    "too short": ([0, "bfloat16"], "wants"),
    "nothing": ([], "wants"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_a_tensor_must_be_what_its_frame_holds(name: str) -> None:
    described, reason = BAD_TENSORS[name]
    with pytest.raises(PeerError, match=reason):
        messages(data(["DraftContext", 1, 1, 0, described], tensors=[bytes(12)]))


def test_a_tensor_without_bytes_is_refused() -> None:
    with pytest.raises(PeerError, match="not a list of a few sizes"):
        messages(data(["DraftContext", 1, 1, 0, [0, "uint8", [0]]], tensors=[b""]))


# --- caps -------------------------------------------------------------------------------------------------------------

SMALL = Codec(LinkConfig(frame_bytes=1 << 12, tensor_bytes=1 << 12, tensors=2))
CONTEXT = ["DraftContext", 1, 1, 0, [0, "uint8", [1]]]


def test_a_payload_at_the_cap_passes_and_one_byte_more_does_not() -> None:
    text = (1 << 12) - len(msgpack.packb([["Emit", 1, 0, [], "", []]])) - 2
    fits = data(["Emit", 1, 0, [], "x" * text, []])
    assert SMALL.decode(fits).messages == (Emit(1, 0, (), "x" * text),)
    with pytest.raises(PeerError, match="payload of 4097 bytes, cap 4096"):
        SMALL.decode(data(["Emit", 1, 0, [], "x" * (text + 1), []]))


def test_a_tensor_above_the_cap_is_refused() -> None:
    assert SMALL.decode(data(["Reset"], tensors=[bytes(4096)])).size == 4096 + 8
    with pytest.raises(PeerError, match="tensor of 4097 bytes, cap 4096"):
        SMALL.decode(data(["Reset"], tensors=[bytes(4097)]))


def test_more_tensors_than_the_cap_are_refused() -> None:
    assert SMALL.decode(data(CONTEXT, CONTEXT, tensors=[b"x"] * 2)).size
    with pytest.raises(PeerError, match="3 tensors, cap 2"):
        SMALL.decode(data(CONTEXT, tensors=[b"x"] * 3))


HUGE = struct.pack(">I", 2**30)
HUGE_CLAIMS: dict[str, bytes] = {
    "messages": b"\xdd" + HUGE,
    "fields": b"\x91\xdd" + HUGE + b"\xa5Reset",
    "tokens": b"\x91\x94\xa6Submit\x01\xdd" + HUGE + b"\x01",
    "text": b"\x91\x92\xa9Heartbeat\xdb" + HUGE + b"x",
    "bytes": b"\x91\x95\xa4Blob\xa0\x00\x00\xc6" + HUGE + b"x",
    "unknown field": b"\x91\x92\xa5Reset\xdd" + HUGE + b"x",
    "unknown map": b"\x91\x92\xa5Reset\xdf" + HUGE + b"x",
}


@pytest.mark.parametrize("name", HUGE_CLAIMS)
def test_a_length_that_is_only_claimed_allocates_nothing(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PeerError, match="payload: "):
            CODEC.decode(raw(HUGE_CLAIMS[name]))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_our_own_frame_that_is_too_large_is_a_bug_of_ours() -> None:
    with pytest.raises(LocalError, match=r"payload of \d+ bytes, cap 4096"):
        SMALL.encode(Kind.DATA, 1, 1, 1, (Emit(1, 0, (), "x" * 4096),))
    with pytest.raises(LocalError, match="3 tensors, cap 2"):
        SMALL.encode(Kind.DATA, 1, 1, 1, (DraftContext(1, 1, 0, HIDDEN),) * 3)


def test_our_own_tensor_must_fit_its_shape() -> None:
    with pytest.raises(LocalError, match="5 bytes do not fill"):
        Tensor("float32", (1,), b"12345")
    with pytest.raises(LocalError, match="no dtype 'float64'"):
        Tensor("float64", (1,), b"12345678")
    with pytest.raises(LocalError, match="0 bytes do not fill"):
        Tensor("float32", (0, 4), b"")


# --- whatever the bytes are -------------------------------------------------------------------------------------------


FUZZ = settings(max_examples=200)


def survives(frames: Sequence[bytes]) -> None:
    try:
        frame = SMALL.decode(frames)
    except PeerError:
        return
    assert SMALL.decode(SMALL.encode(*frame[:5])).messages == frame.messages


@FUZZ
@given(st.lists(st.binary(max_size=64), max_size=4))
def test_arbitrary_parts_are_a_frame_or_a_peer_error(frames: list[bytes]) -> None:
    survives(frames)


@FUZZ
@given(st.binary(max_size=200))
def test_an_arbitrary_payload_is_a_frame_or_a_peer_error(payload: bytes) -> None:
    survives(raw(payload))


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(sorted({type(each).__name__ for each in MESSAGES.values()})), st.lists(PLAIN)
)
def test_arbitrary_fields_are_a_message_or_a_peer_error(name: str, fields: list[Any]) -> None:
    survives(data([name, *fields], tensors=[bytes(12)]))


@FUZZ
@given(st.sampled_from(sorted(MESSAGES)), st.data())
def test_a_mutated_frame_is_a_frame_or_a_peer_error(name: str, draw: st.DataObject) -> None:
    frames = [bytes(part) for part in CODEC.encode(Kind.DATA, 1, 2, 3, (MESSAGES[name],))]
    part = draw.draw(st.integers(0, len(frames) - 1))
    place = draw.draw(st.integers(0, len(frames[part])))
    change = draw.draw(st.sampled_from(["replace", "insert", "delete"]))
    byte = draw.draw(st.binary(min_size=1, max_size=2))
    rest = frames[part][place + (0 if change == "insert" else 1) :]
    frames[part] = frames[part][:place] + (b"" if change == "delete" else byte) + rest
    survives(frames)
