"""A tensor as it travels: dtype, shape and raw little-endian bytes. Knows no tensor library."""

from math import prod
from typing import Final

from protocol.errors import LocalError

ITEMSIZE: Final = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
"""Bytes of one item for every dtype that may be on the wire."""


def nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    """How many bytes a tensor of this dtype and shape fills."""
    return ITEMSIZE[dtype] * prod(shape)


class Tensor:
    """Raw values; `data` holds exactly itemsize x product(shape) bytes, row-major, little-endian. Never empty.

    Not a dataclass on purpose: the codec must see a foreign type to move the bytes into a frame of their own.
    """

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, dtype: str, shape: tuple[int, ...], data: bytes | memoryview) -> None:
        if dtype not in ITEMSIZE:
            raise LocalError(f"no dtype {dtype!r} on the wire, only {sorted(ITEMSIZE)}")
        if len(data) != nbytes(dtype, shape) or not data:
            raise LocalError(f"{len(data)} bytes do not fill {dtype}{list(shape)}")
        self.dtype = dtype
        self.shape = shape
        self.data = data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        return (self.dtype, self.shape, bytes(self.data)) == (
            other.dtype,
            other.shape,
            bytes(other.data),
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})"
