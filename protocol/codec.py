"""Messages to frames and back: `[header][payload][tensor 0][tensor 1]...`, under caps, without pickle.

Everything that can be wrong with bytes from outside is a `PeerError` here or never: behind `decode` types are
trusted. Nothing is allocated for a claim before the claim was checked against the bytes that are there.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from protocol.config import LinkConfig
from protocol.errors import LocalError, PeerError
from protocol.messages import PROTOCOL_VERSION, AnyMessage
from protocol.tensor import ITEMSIZE, Tensor, nbytes

MAGIC: Final = b"DMSH"
HEADER: Final = struct.Struct(">4sBBHQQQ")  # magic, version, kind, tensors, link, link_seq, ack
MAX_DIMENSIONS: Final = 8


class Kind(IntEnum):
    """What a frame is; only `BEAT` and `DATA` belong to a link's sequence."""

    HELLO = 1
    WELCOME = 2
    REFUSE = 3
    BEAT = 4
    DATA = 5


class Frame(NamedTuple):
    """A decoded frame. `size` counts the payload and tensor bytes that the window accounts for."""

    kind: Kind
    link: int
    seq: int
    ack: int
    messages: tuple[AnyMessage, ...]
    size: int


_KINDS: Final = {int(kind): kind for kind in Kind}


class Codec:
    """One codec a node; not for use by two threads at once."""

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        self._tensors: list[bytes | memoryview] = []
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._put)
        self._decoder = msgspec.msgpack.Decoder(tuple[AnyMessage, ...], dec_hook=self._get)

    def encode(
        self, kind: Kind, link: int, seq: int, ack: int, messages: Sequence[AnyMessage]
    ) -> list[bytes | memoryview]:
        """The frames of one multipart message; too much for one frame is a LocalError."""
        self._tensors = []
        payload = self._encoder.encode(messages)
        if len(payload) > self._config.frame_bytes:
            raise LocalError(f"payload of {len(payload)} bytes, cap {self._config.frame_bytes}")
        if len(self._tensors) > self._config.tensors:
            raise LocalError(f"{len(self._tensors)} tensors, cap {self._config.tensors}")
        header = HEADER.pack(MAGIC, PROTOCOL_VERSION, kind, len(self._tensors), link, seq, ack)
        return [header, payload, *self._tensors]

    def decode(self, frames: Sequence[bytes | memoryview]) -> Frame:
        """The frame that these bytes are, or a PeerError that says what they are not."""
        if len(frames) < 2 or len(frames[0]) != HEADER.size:
            raise PeerError("not a frame of this mesh")
        magic, version, kind, tensors, link, seq, ack = HEADER.unpack(frames[0])
        if magic != MAGIC:
            raise PeerError("not a frame of this mesh")
        if version != PROTOCOL_VERSION:
            raise PeerError(f"protocol version {version}, this side speaks {PROTOCOL_VERSION}")
        if kind not in _KINDS:
            raise PeerError(f"no frame kind {kind}")
        self._check_sizes(frames, tensors)
        self._tensors = list(frames[2:])
        try:
            messages = self._decoder.decode(frames[1])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PeerError(f"payload: {error}") from error
        finally:
            self._tensors = []
        return Frame(_KINDS[kind], link, seq, ack, messages, sum(map(len, frames[1:])))

    def _check_sizes(self, frames: Sequence[bytes | memoryview], tensors: int) -> None:
        if tensors != len(frames) - 2:
            raise PeerError(f"{len(frames) - 2} tensor frames, header says {tensors}")
        if tensors > self._config.tensors:
            raise PeerError(f"{tensors} tensors, cap {self._config.tensors}")
        if len(frames[1]) > self._config.frame_bytes:
            raise PeerError(f"payload of {len(frames[1])} bytes, cap {self._config.frame_bytes}")
        for data in frames[2:]:
            if len(data) > self._config.tensor_bytes:
                raise PeerError(f"tensor of {len(data)} bytes, cap {self._config.tensor_bytes}")

    def _put(self, value: Any) -> tuple[int, str, tuple[int, ...]]:  # noqa: ANN401
        if not isinstance(value, Tensor):
            raise LocalError(f"{type(value).__name__} cannot travel")
        self._tensors.append(value.data)
        return (len(self._tensors) - 1, value.dtype, value.shape)

    def _get(self, kind: type, value: Any) -> Tensor:  # noqa: ANN401
        if kind is not Tensor:
            raise LocalError(f"{kind.__name__} cannot travel")
        match value:
            case [int(index), str(dtype), [*shape]] if 0 <= index < len(self._tensors):
                return self._tensor(self._tensors[index], dtype, tuple(shape))
        raise msgspec.ValidationError("tensor: wants [frame index, dtype, shape]")

    @staticmethod
    def _tensor(data: bytes | memoryview, dtype: str, shape: tuple[object, ...]) -> Tensor:
        if dtype not in ITEMSIZE:
            raise msgspec.ValidationError(f"tensor: no dtype {dtype[:32]!r}")
        sizes = tuple(size for size in shape if type(size) is int and size > 0)
        if len(sizes) != len(shape) or len(shape) > MAX_DIMENSIONS:
            raise msgspec.ValidationError("tensor: shape is not a list of a few sizes")
        if nbytes(dtype, sizes) != len(data):
            raise msgspec.ValidationError(f"tensor: {len(data)} bytes for {dtype}{list(sizes)}")
        return Tensor(dtype, sizes, data)
