"""Doing what a plan says: bytes between pages and chunks.

Shapes: P pages, S slots of a page, Q slots of all pages, N of a chunk, R parts, K heads of this rank, B bytes of a head
(of a slot, where heads are not told apart).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtransfer.layout import Layout
from kvtransfer.plan import Copy, Place, gather, packed, scatter
from protocol.messages import Piece

Bytes = NDArray[np.uint8]
FEW: Final = 4
"""Runs of pages that are still copied one by one: less than numpy needs for a list of them."""


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

    def slots(self, layer: int) -> Bytes:
        """A view [Q, bytes of a slot]; only with order `slots`."""
        view = self._views[layer]
        return view.reshape(len(view), -1)


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
    if (spans := _scattered(pages, held, travelling, piece)) is not None:
        for number in range(piece.first, piece.end):
            spans.gather(pages.slots(number), chunk.slots(number - piece.first))
        return
    for each in gather(Place(pages.layout, held), travelling, piece):
        chunk.run(each.layer - piece.first, each.target_slot, each.slots, 0, each.heads)[...] = (
            pages.run(each.layer, each.source_slot, each.slots, each.source_head, each.heads)
        )


def unpack(
    pages: Pages, held: Sequence[int], travelling: Layout, piece: Piece, data: memoryview
) -> None:
    """Scatter a piece into the pages `held`."""
    chunk = _chunk(travelling, piece, data)
    if (spans := _scattered(pages, held, travelling, piece)) is not None:
        for number in range(piece.first, piece.end):
            spans.scatter(chunk.slots(number - piece.first), pages.slots(number))
        return
    for each in scatter(Place(pages.layout, held), travelling, piece):
        pages.run(each.layer, each.target_slot, each.slots, each.target_head, each.heads)[...] = (
            chunk.run(each.layer - piece.first, each.source_slot, each.slots, 0, each.heads)
        )


class _Spans(NamedTuple):
    """Positions in a row: `head` slots from `first` on, all of the pages `whole`, `tail` slots from `last` on."""

    page_size: int
    first: int
    head: int
    whole: NDArray[np.intp]
    last: int
    tail: int

    def gather(self, pages_QB: Bytes, chunk_NB: Bytes) -> None:  # noqa: N803
        inner, end = self._inner(chunk_NB)
        chunk_NB[: self.head] = pages_QB[self.first : self.first + self.head]
        # Any other mode than the default takes rows without a copy in between; the pages were looked at before.
        np.take(self._paged(pages_QB), self.whole, axis=0, out=inner, mode="clip")
        chunk_NB[end:] = pages_QB[self.last : self.last + self.tail]

    def scatter(self, chunk_NB: Bytes, pages_QB: Bytes) -> None:  # noqa: N803
        inner, end = self._inner(chunk_NB)
        pages_QB[self.first : self.first + self.head] = chunk_NB[: self.head]
        self._paged(pages_QB)[self.whole] = inner
        pages_QB[self.last : self.last + self.tail] = chunk_NB[end:]

    def _paged(self, pages_QB: Bytes) -> Bytes:  # noqa: N803
        return pages_QB.reshape(len(pages_QB) // self.page_size, -1)

    def _inner(self, chunk_NB: Bytes) -> tuple[Bytes, int]:  # noqa: N803
        """The part of a chunk that is whole pages, a row each; and where it ends."""
        end = self.head + len(self.whole) * self.page_size
        return chunk_NB[self.head : end].reshape(len(self.whole), -1), end


def _scattered(
    pages: Pages, held: Sequence[int], travelling: Layout, piece: Piece
) -> _Spans | None:
    """Where many pages that do not follow each other are copied whole: then a plan costs more than the copies do."""
    size = pages.layout.page_size
    first, stop = -(-piece.start // size), piece.stop // size
    if pages.layout.order != "slots" or stop - first <= FEW:
        return None
    layers = range(piece.first, piece.end)
    if any(travelling.layers[each] != pages.layout.layers[each] for each in layers):
        return None
    whole = np.asarray(held[first:stop], np.intp)
    if np.count_nonzero(np.diff(whole) != 1) < FEW:
        return None
    head, tail = first * size - piece.start, piece.stop - stop * size
    begin = held[first - 1] * size + size - head if head else 0
    last = held[stop] * size if tail else 0
    return _Spans(size, begin, head, whole, last, tail)


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
