"""The law that a draft token was drawn from, and how it travels: ids with float32 values in `DraftTailStream`.

The values are those of the draw itself, rounded before it: the probability of an id is its value over the sum of the
values, added up in float64 in the order in which they are sent. An id that is not among them had none (issue 5).

Shapes: T tokens of a row, K ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from protocol.errors import PeerError
from protocol.tensor import Tensor

Ids = npt.NDArray[np.int32]
Values = npt.NDArray[np.float32]

OFF: Final = 1e-3
"""How far from 1 the sum of float32 probabilities may be; honest ones are a thousand times closer."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """A distribution over a few tokens: distinct `ids` [K], each with a positive value; nothing else was possible."""

    ids: Ids
    values: Values

    @property
    def total(self) -> float:
        """What the values come to: the one number by which both sides divide."""
        return float(self.values.cumsum(dtype=np.float64)[-1])

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """The probabilities, in the order of the ids."""
        return self.values / np.float64(self.total)


def certain(token: int) -> Law:
    """That of a guess that was not drawn: nothing else was possible."""
    return Law(np.array([token], dtype="<i4"), np.ones(1, dtype="<f4"))


def pack(laws: Sequence[Law]) -> tuple[Tensor, Tensor]:
    """Ids int32 [T, K] and values float32 [T, K]; a shorter law is filled up with values of 0, which mean nothing."""
    width = max(len(law.ids) for law in laws)
    ids_TK = np.zeros((len(laws), width), dtype="<i4")
    values_TK = np.zeros((len(laws), width), dtype="<f4")
    for row, law in enumerate(laws):
        ids_TK[row, : len(law.ids)] = law.ids
        values_TK[row, : len(law.ids)] = law.values
    shape = (len(laws), width)
    return Tensor("int32", shape, ids_TK.tobytes()), Tensor("float32", shape, values_TK.tobytes())


def unpack(
    ids: Tensor | None, values: Tensor | None, tokens: Sequence[int], vocabulary: int
) -> list[Law]:
    """A law for each of `tokens`; none where none were sent. A PeerError says why they cannot be the laws of a draw."""
    if ids is None and values is None:
        return []
    if ids is None or values is None:
        raise PeerError("a slice needs ids and probabilities")
    shape = ids.shape
    if len(shape) != 2 or shape[0] != len(tokens) or values.shape != shape:
        raise PeerError(f"slices {list(shape)} and {list(values.shape)} for {len(tokens)} tokens")
    if (ids.dtype, values.dtype) != ("int32", "float32"):
        raise PeerError(f"slices of {ids.dtype} and {values.dtype}")
    ids_TK = np.frombuffer(ids.data, dtype="<i4").reshape(shape)
    values_TK = np.frombuffer(values.data, dtype="<f4").reshape(shape)
    if not (values_TK >= 0).all() or not (values_TK <= 1).all():  # a NaN is neither
        raise PeerError("a slice holds what is no probability")
    if ids_TK.min() < 0 or ids_TK.max() >= vocabulary:
        raise PeerError(f"a slice holds a token that is not below {vocabulary}")
    return [_law(*row) for row in zip(ids_TK, values_TK, tokens, strict=True)]


def _law(ids_K: Ids, values_K: Values, token: int) -> Law:
    possible_K = values_K > 0
    if not possible_K.all():
        ids_K, values_K = ids_K[possible_K], values_K[possible_K]
    if not (ids_K == token).any():
        raise PeerError(f"token {token} cannot have been drawn from its slice")
    if len(set(ids_K.tolist())) != len(ids_K):
        raise PeerError("a slice holds a token twice")
    law = Law(ids_K, values_K)
    if abs(law.total - 1) > OFF:
        raise PeerError(f"the probabilities of a slice come to {law.total:.4f}")
    return law


def one_row(laws: Sequence[Law]) -> tuple[Tensor | None, Tensor | None]:
    """What a row says of the laws of its tokens: nothing, if there are none."""
    return pack(laws) if laws else (None, None)
