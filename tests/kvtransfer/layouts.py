"""Layouts and pages of any shape, and the same values as plain tensors that know nothing of pages.

Shapes: L positions, R parts, K heads of the whole model, D numbers of a head.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from hypothesis import strategies as st
from msgspec import structs

from kvtransfer.layout import Layer, Layout, Order
from kvtransfer.memory import Bytes, Pages

GARBAGE: Final = 0xEE
NUMPY: Final = {"float32": np.float32, "bfloat16": np.uint16}


@dataclass(frozen=True)
class Shape:
    """What all nodes have alike."""

    layers: tuple[Layer, ...]  # with all heads
    length: int


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    heads, size = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from(sorted(NUMPY)))
    layers = [Layer("target", dtype, heads, size, 0, heads)] * draw(st.integers(1, 3))
    if draw(st.booleans()):
        layers.append(Layer("features", "bfloat16", 1, draw(st.integers(1, 9)), 0, 1, parts=1))
    return Shape(tuple(layers), draw(st.integers(1, 40)))


@st.composite
def ranks(draw: st.DrawFn, shape: Shape, first: int, end: int) -> Layout:
    """A node that holds heads [first, end) of the target, in its own way."""
    layers = tuple(
        layer.between(first, end) if layer.role == "target" else layer for layer in shape.layers
    )
    order: Order = draw(st.sampled_from(["slots", "heads"]))
    return Layout(layers, draw(st.integers(1, 9)), order)


@st.composite
def shards(draw: st.DrawFn, shape: Shape) -> list[Layout]:
    """Nodes that hold all heads together, some maybe twice."""
    heads = shape.layers[0].heads
    made, covered = [], 0
    while covered < heads:
        first, end = draw(st.integers(0, covered)), draw(st.integers(covered + 1, heads))
        made.append(draw(ranks(shape, first, end)))
        covered = end
    return made


@st.composite
def tables(draw: st.DrawFn, layout: Layout, length: int) -> tuple[list[int], int]:
    """A page table for so many positions, and how many pages the node has."""
    needed = -(-length // layout.page_size)
    pool = needed + draw(st.integers(0, 3))
    return list(draw(st.permutations(range(pool))))[:needed], pool


def whole(shape: Shape, seed: int) -> list[np.ndarray]:
    """Random values [L, R, K, D] a layer."""
    random = np.random.default_rng(seed)
    return [
        random.integers(0, 2**16, (shape.length, each.parts, each.heads, each.head_size)).astype(
            NUMPY[each.dtype]
        )
        for each in shape.layers
    ]


def empty(layout: Layout, pool: int) -> tuple[Pages, list[Bytes]]:
    """Pages full of garbage, and the memory behind them."""
    sizes = [pool * layout.page_size * layer.slot_bytes for layer in layout.layers]
    memory = [np.full(size, GARBAGE, np.uint8) for size in sizes]
    return Pages(layout, memory), memory


def filled(layout: Layout, table: list[int], pool: int, values: list[np.ndarray]) -> Pages:
    """Pages that hold these values; written position by position, without a plan."""
    pages, memory = empty(layout, pool)
    for layer, data, value in zip(layout.layers, memory, values, strict=True):
        tensor = _tensor(layout, layer, data)
        for position, row in enumerate(value):
            page, offset = divmod(position, layout.page_size)
            _at(layout, tensor, table[page], offset)[...] = row[:, layer.first : layer.end]
    return pages


def read(layout: Layout, table: list[int], memory: list[Bytes], length: int) -> list[np.ndarray]:
    """Values [L, R, heads of this rank, D] a layer; read position by position."""
    found = []
    for layer, data in zip(layout.layers, memory, strict=True):
        tensor = _tensor(layout, layer, data)
        rows = [
            _at(layout, tensor, table[position // layout.page_size], position % layout.page_size)
            for position in range(length)
        ]
        found.append(np.stack(rows))
    return found


def untouched(layout: Layout, table: list[int], memory: list[Bytes]) -> bool:
    """Whether pages that are not in the table are as they were."""
    for data in memory:
        pages = data.reshape(
            -1, layout.page_size, data.size // max(1, _pool(layout, memory)) // layout.page_size
        )
        others = np.delete(pages, table, axis=0)
        if (others != GARBAGE).any():
            return False
    return True


def small(**changes: object) -> Layout:
    """Two layers of four heads and a row of features."""
    layer = Layer("target", "bfloat16", 4, 8, 0, 4)
    features = Layer("features", "bfloat16", 1, 24, 0, 1, parts=1)
    layout = Layout((layer, layer, features), 16, "slots", "theta 1e5", "m", "", "d")
    return structs.replace(layout, **changes)


def _pool(layout: Layout, memory: list[Bytes]) -> int:
    return memory[0].size // (layout.layers[0].slot_bytes * layout.page_size)


def _tensor(layout: Layout, layer: Layer, data: Bytes) -> np.ndarray:
    parts = (layer.parts, layer.held)
    numbers = data.view(NUMPY[layer.dtype])
    if layout.order == "slots":
        return numbers.reshape(-1, layout.page_size, *parts, layer.head_size)
    return numbers.reshape(-1, *parts, layout.page_size, layer.head_size)


def _at(layout: Layout, tensor: np.ndarray, page: int, offset: int) -> np.ndarray:
    found: np.ndarray = (
        tensor[page, offset] if layout.order == "slots" else tensor[page, :, :, offset]
    )
    return found
