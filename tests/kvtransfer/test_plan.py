"""Plans of copies against plain tensors: the same numbers arrive, and nothing else is touched."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from kvtransfer.memory import move, pack, unpack
from kvtransfer.plan import Place, copies, piece_bytes, pieces, shared
from protocol.errors import LocalError
from tests.kvtransfer import layouts
from tests.kvtransfer.layouts import small


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_positions_come_from_any_ranks_into_any_pages(data: st.DataObject) -> None:
    shape = data.draw(layouts.shapes())
    values = layouts.whole(shape, seed=shape.length)
    nodes = [
        (layout, *data.draw(layouts.tables(layout, shape.length)))
        for layout in data.draw(layouts.shards(shape))
    ]
    heads = shape.layers[0].heads
    first = data.draw(st.integers(0, heads - 1))
    target = data.draw(layouts.ranks(shape, first, data.draw(st.integers(first + 1, heads))))
    table, pool = data.draw(layouts.tables(target, shape.length))
    start = data.draw(st.integers(0, shape.length))
    end = data.draw(st.integers(start, shape.length))

    pages, memory = layouts.empty(target, pool)
    plan = copies(
        [Place(layout, held) for layout, held, _ in nodes], Place(target, table), start, end
    )
    move([layouts.filled(layout, held, pool, values) for layout, held, pool in nodes], pages, plan)

    arrived = layouts.read(target, table, memory, shape.length)
    nothing = layouts.read(target, table, layouts.empty(target, pool)[1], shape.length)
    for layer, value, found, garbage in zip(target.layers, values, arrived, nothing, strict=True):
        wanted = garbage.copy()
        wanted[start:end] = value[start:end, :, layer.first : layer.end]
        assert wanted.tobytes() == found.tobytes()
    assert layouts.untouched(target, table, memory)
    moved = sum(
        each.slots
        * each.heads
        * target.layers[each.layer].parts
        * target.layers[each.layer].head_bytes
        for each in plan
    )
    assert moved == target.slot_bytes * (
        end - start
    )  # each byte once, also where ranks hold the same


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_chunks_carry_the_same_and_are_never_too_large(data: st.DataObject) -> None:
    shape = data.draw(layouts.shapes())
    values = layouts.whole(shape, seed=shape.length)
    heads = shape.layers[0].heads
    source = data.draw(layouts.ranks(shape, 0, data.draw(st.integers(1, heads))))
    target = data.draw(layouts.ranks(shape, 0, data.draw(st.integers(1, heads))))
    held, pool = data.draw(layouts.tables(source, shape.length))
    table, space = data.draw(layouts.tables(target, shape.length))
    start = data.draw(st.integers(0, shape.length - 1))
    end = data.draw(st.integers(start + 1, shape.length))
    travelling = shared(source, target)
    least = max(layer.slot_bytes for layer in travelling.layers)
    most = least * data.draw(st.integers(1, 60))

    there = layouts.filled(source, held, pool, values)
    here, memory = layouts.empty(target, space)
    total = 0
    for piece in pieces(travelling, start, end, most):
        size = piece_bytes(travelling, piece)
        assert 0 < size <= most
        total += size
        chunk = memoryview(bytearray(size))
        pack(there, held, travelling, piece, chunk)
        unpack(here, table, travelling, piece, chunk)
    assert total == travelling.slot_bytes * (end - start)

    found = layouts.read(target, table, memory, shape.length)
    for layer, value, arrived in zip(travelling.layers, values, found, strict=True):
        mine = arrived[start:end, :, : layer.end]
        assert mine.tobytes() == value[start:end, :, : layer.end].tobytes()
    assert layouts.untouched(target, table, memory)


def test_pages_in_a_row_on_both_sides_are_one_copy_a_layer() -> None:
    one = Place(small(page_size=16), [4, 5, 6, 7])
    other = Place(small(page_size=32), [0, 1])
    assert len(copies([one], other, 0, 64)) == len(one.layout.layers)
    torn = Place(small(page_size=16), [4, 5, 9, 10])
    assert len(copies([torn], other, 0, 64)) == 2 * len(one.layout.layers)


def test_small_layers_share_a_chunk_and_a_large_one_is_divided() -> None:
    layout = small()
    [everything] = pieces(layout, 3, 10, layout.slot_bytes * 7)
    assert (everything.first, everything.end, everything.start, everything.stop) == (0, 3, 3, 10)
    parts = list(pieces(layout, 0, 10, layout.layers[0].slot_bytes * 4))
    first = [(each.start, each.stop) for each in parts if each.first == 0]
    assert first == [(0, 4), (4, 8), (8, 10)]
    assert all(one.end <= other.first or one.first == other.first for one, other in pairwise(parts))


def test_what_cannot_be_planned_is_said_before_anything_is_copied() -> None:
    place = Place(small(), [0])
    with pytest.raises(LocalError, match="not in pages for 16"):
        copies([place], place, 0, 17)
    with pytest.raises(LocalError, match="model: n here, m there"):
        copies([Place(small(model="n"), [0])], place, 0, 16)
    half = small().layers[0].between(0, 2)
    with pytest.raises(LocalError, match=r"heads \[2, 3\] of layer 0 are held by no source"):
        copies(
            [Place(structs.replace(small(), layers=(half, half, small().layers[2])), [0])],
            place,
            0,
            16,
        )
    with pytest.raises(LocalError, match="too few for a position"):
        list(pieces(small(), 0, 1, 8))


def test_bits_that_are_no_numbers_travel_too() -> None:
    """Copies are of bytes: a payload of not-a-number keeps its bits."""
    shape = layouts.Shape((small().layers[0],), 4)
    values = [np.full((4, 2, 4, 8), 0x7FC1, np.uint16)]
    source, target = small(layers=shape.layers), small(layers=shape.layers, order="heads")
    pages, memory = layouts.empty(target, 1)
    move(
        [layouts.filled(source, [0], 1, values)],
        pages,
        copies([Place(source, [0])], Place(target, [0]), 0, 4),
    )
    assert layouts.read(target, [0], memory, 4)[0].tobytes() == values[0].tobytes()
