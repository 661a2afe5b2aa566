"""A chunk holds what its piece says and fills nothing else, wherever the pages lie."""

from typing import Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtransfer import memory
from kvtransfer.layout import Layer, Layout
from kvtransfer.memory import pack, unpack
from kvtransfer.plan import piece_bytes
from protocol.messages import Piece
from tests.kvtransfer import layouts

LAYERS: Final = (
    *[Layer("target", "bfloat16", 2, 2, 0, 2)] * 2,
    Layer("features", "bfloat16", 1, 3, 0, 1, parts=1),
)
POOL: Final = 24
LAYOUT: Final = Layout(LAYERS, 4)
LENGTH: Final = POOL * 4 - 3
VALUES: Final = layouts.whole(layouts.Shape(LAYERS, LENGTH), 5)
Case = tuple[list[int], list[int], Piece]
"""Page tables of both sides, and what is moved."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    theirs, ours = (list(draw(st.permutations(range(POOL)))) for _ in range(2))
    start = draw(st.integers(0, LENGTH - 1))
    first = draw(st.integers(0, len(LAYERS) - 1))
    stop, end = draw(st.integers(start + 1, LENGTH)), draw(st.integers(first + 1, len(LAYERS)))
    return theirs, ours, Piece(first, end, start, stop)


@given(cases())
def test_a_piece_moves_between_scattered_pages_and_nothing_else_does(case: Case) -> None:
    theirs, ours, piece = case
    pages, data = layouts.empty(LAYOUT, POOL)
    chunk = memoryview(bytearray(piece_bytes(LAYOUT, piece)))
    pack(layouts.filled(LAYOUT, theirs, POOL, VALUES), theirs, LAYOUT, piece, chunk)
    unpack(pages, ours, LAYOUT, piece, chunk)
    for number, found in enumerate(layouts.read(LAYOUT, ours, data, LENGTH)):
        wanted = np.full_like(found, layouts.GARBAGE * 0x101)
        if piece.first <= number < piece.end:
            wanted[piece.start : piece.stop] = VALUES[number][piece.start : piece.stop]
        assert np.array_equal(found, wanted)


def test_pages_in_no_order_are_taken_all_at_once_and_those_in_a_row_are_not() -> None:
    pages, _ = layouts.empty(LAYOUT, POOL)
    piece = Piece(0, 1, 2, LENGTH)
    assert memory._scattered(pages, range(POOL), LAYOUT, piece) is None
    spans = memory._scattered(pages, [*range(0, POOL, 2), *range(1, POOL, 2)][::-1], LAYOUT, piece)
    assert spans is not None
    assert (spans.head, len(spans.whole), spans.tail) == (2, POOL - 2, 1)
