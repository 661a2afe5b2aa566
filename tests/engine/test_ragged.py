"""Rows as tiles and parts, in a buffer that may have room for more."""

import numpy as np
import pytest

from engine.batch import Row
from engine.errors import EngineError
from engine.ragged import FEW, SPLIT, Room, Shape, deal, room_of, scratch_bytes


def test_tokens_are_dealt_in_order_and_each_once() -> None:
    rows = [
        Row([1] * 5, 6, [3, 4, 5], 0),
        Row([1], 0, [9], 0),
        Row([1] * (FEW + 3), 1, range(30), 0),
    ]
    room = room_of(rows, 4, 4)
    made = room.views(deal(rows, room, 4).numbers)
    assert made["tile_count"].tolist() == [4, 1, 1, *[4] * 16, 3]
    assert made["tile_token"][:4].tolist() == [0, 4, 5, 6]
    assert made["tile_keys"][:4].tolist() == [10, 11, 1, 5]
    assert made["tile_part"][:4].tolist() == [0, 4, 5, -1]  # the long row has no parts
    assert made["last"][:6].tolist() == [6, 7, 8, 9, 10, 0]
    assert made["part_token"].tolist() == [0, 1, 2, 3, 4, 5]
    assert made["table"][0, :3].tolist() == [3, 4, 5]


def test_what_is_left_of_a_larger_room_is_empty() -> None:
    room = Room(tokens=8, tiles=8, rows=4, pages=4, parts=8, tile=4)
    numbers = np.full(room.size, 77, np.int32)
    deal([Row([1] * 2, 3, [0, 1], 0)], room, 4, into=numbers)
    made = room.views(numbers)
    assert made["tile_count"].tolist() == [2, *[0] * 7]
    assert made["part_keys"].tolist() == [5, 5, *[0] * 6]
    assert made["last"].tolist() == [3, 4, *[-1] * 6]


def test_splits_follow_the_longest_row_that_has_parts() -> None:
    rows = [Row([1], SPLIT, range(200), 0), Row([1] * (FEW + 1), 3 * SPLIT, range(600), 0)]
    assert deal(rows, room_of(rows, 4, 4), 4).splits == 2
    assert scratch_bytes(parts=10, splits=1, queries=8, size=64) == 0
    assert scratch_bytes(parts=10, splits=3, queries=8, size=64) == 4 * 10 * 3 * 8 * 66


@pytest.mark.parametrize(
    ("longest", "fold", "size", "queries", "tile"),
    [(1, 1, 64, 16, 16), (1, 3, 64, 16, 5), (8, 4, 128, 32, 8), (500, 4, 128, 128, 32),
     (500, 4, 256, 64, 16), (1, 40, 64, 64, 1)],
)  # fmt: skip
def test_tiles_are_as_high_as_their_rows_need(
    longest: int, fold: int, size: int, queries: int, tile: int
) -> None:
    shape = Shape(longest, fold, size)
    assert (shape.queries, shape.tile) == (queries, tile)


def test_a_block_is_no_tree() -> None:
    row = Row([1, 1], 0, [0], 0, [1, 3])
    with pytest.raises(EngineError, match="a row that is not causal is no tree"):
        deal([row], room_of([row], 4, 4), 4, causal=False)
