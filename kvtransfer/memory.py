"""Doing what a plan says: bytes between pages and chunks.

Shapes: P pages, S slots of a page, Q slots of all pages, R parts, K heads of this rank, B bytes of a head.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvtransfer.layout import Layout
from kvtransfer.plan import Copy, Place, gather, packed, scatter
from protocol.messages import Piece

Bytes = NDArray[np.uint8]


class Pages:
    """The memory of all layers of a node, each one run of bytes that its layout explains."""

    def __init__(self, layout: Layout, layers: Sequence[Bytes]) -> None:
        self.layout = layout
        self._views: list[Bytes] = []
        for layer, data in zip(layout.layers, layers, strict=True):
            parts = (layer.parts, layer.held)
            shape = (
                (-1, *parts, layer.head_bytes)
                if layout.order == "slots"
                else (-1, *parts, layout.page_size, layer.head_bytes)
            )
            view = data.reshape(shape)
            assert np.shares_memory(view, data)  # what is written must be where it is read
            self._views.append(view)

    def run(self, layer: int, slot: int, count: int, head: int, heads: int) -> Bytes:
        """A view [count, R, heads, B]; with order `heads` it may not cross a page."""
        view = self._views[layer]
        if self.layout.order == "slots":
            return view[slot : slot + count, :, head : head + heads]
        page, offset = divmod(slot, self.layout.page_size)
        inside = view[page, :, head : head + heads, offset : offset + count]
        return inside.transpose(2, 0, 1, 3)


def move(sources: Sequence[Pages], target: Pages, plan: Sequence[Copy]) -> None:
    """Execute copies between pages."""
    for each in plan:
        target.run(each.layer, each.target_slot, each.slots, each.target_head, each.heads)[...] = (
            sources[each.source].run(
                each.layer, each.source_slot, each.slots, each.source_head, each.heads
            )
        )


def pack(
    pages: Pages, held: Sequence[int], travelling: Layout, piece: Piece, into: memoryview
) -> None:
    """Gather a piece of the sequence that lies in the pages `held`; `into` is exactly as long as it."""
    chunk = _chunk(travelling, piece, into)
    for each in gather(Place(pages.layout, held), travelling, piece):
        chunk.run(each.layer - piece.first, each.target_slot, each.slots, 0, each.heads)[...] = (
            pages.run(each.layer, each.source_slot, each.slots, each.source_head, each.heads)
        )


def unpack(
    pages: Pages, held: Sequence[int], travelling: Layout, piece: Piece, data: memoryview
) -> None:
    """Scatter a piece into the pages `held`."""
    chunk = _chunk(travelling, piece, data)
    for each in scatter(Place(pages.layout, held), travelling, piece):
        pages.run(each.layer, each.target_slot, each.slots, each.target_head, each.heads)[...] = (
            chunk.run(each.layer - piece.first, each.source_slot, each.slots, 0, each.heads)
        )


def _chunk(travelling: Layout, piece: Piece, data: memoryview) -> Pages:
    layout = packed(travelling, piece).layout
    whole = np.frombuffer(data, np.uint8)
    parts, begin = [], 0
    for layer in layout.layers:
        end = begin + layer.slot_bytes * layout.page_size
        parts.append(whole[begin:end])
        begin = end
    assert len(whole) == begin, f"{len(whole)} bytes for a piece of {begin}"
    return Pages(layout, parts)
