"""What is copied where, in whole numbers only. Pure.

A `Piece` (`protocol/messages.py`) is what one chunk carries: some layers of some positions, packed. A `Copy` is one run
of slots of one layer that lies in a row on both sides. Packed bytes are laid out like a page of their own (`packed`),
so that moving pages to pages, pages to a chunk and a chunk to pages is one plan.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from kvtransfer.layout import Layout, difference, overlap
from protocol.errors import LocalError
from protocol.messages import Piece


class Place(NamedTuple):
    """A sequence on a node: position 0 is the first slot of the first page."""

    layout: Layout
    pages: Sequence[int]

    @property
    def length(self) -> int:
        """Positions that these pages cover."""
        return len(self.pages) * self.layout.page_size


class Copy(NamedTuple):
    """`slots` slots and `heads` heads of one layer, from a source to the target; heads count from each rank's first."""

    source: int
    layer: int
    source_slot: int
    target_slot: int
    slots: int
    source_head: int
    target_head: int
    heads: int


def copies(sources: Sequence[Place], target: Place, start: int, end: int) -> list[Copy]:
    """Everything that brings positions [start, end) into the target's pages, each byte of it once.

    Where several ranks hold the same head, the first of them gives it. LocalError: layouts do not match, a head is held
    by nobody, or pages do not reach that far.
    """
    for source in sources:
        if (found := difference(source.layout, target.layout)) is not None:
            raise LocalError(str(found))
    for place in (*sources, target):
        if not 0 <= start <= end <= place.length:
            raise LocalError(f"positions [{start}, {end}) are not in pages for {place.length}")
    runs: dict[int, list[tuple[int, int, int]]] = {}
    made: list[Copy] = []
    for number, layer in enumerate(target.layout.layers):
        wanted = set(range(layer.first, layer.end))
        for index, source in enumerate(sources):
            theirs = source.layout.layers[number]
            for first, stop in _ranges(sorted(wanted & set(overlap(theirs, layer)))):
                if index not in runs:
                    runs[index] = list(_runs(source, target, start, end))
                made += [
                    Copy(
                        index, number, *run, first - theirs.first, first - layer.first, stop - first
                    )
                    for run in runs[index]
                ]
                wanted -= set(range(first, stop))
        if wanted:
            raise LocalError(f"heads {sorted(wanted)} of layer {number} are held by no source")
    return made


def pieces(layout: Layout, start: int, end: int, most: int) -> Iterator[Piece]:
    """Positions [start, end) of all layers in chunks of at most `most` bytes; a single slot of a layer must fit."""
    first = 0
    while first < len(layout.layers) and start < end:
        slots = most // layout.layers[first].slot_bytes
        if not slots:
            raise LocalError(f"{most} bytes are too few for a position of layer {first}")
        if slots < end - start:  # a layer alone is too much
            for begin in range(start, end, slots):
                yield Piece(first, first + 1, begin, min(begin + slots, end))
            first += 1
            continue
        stop, left = first, most
        while stop < len(layout.layers):
            left -= layout.layers[stop].slot_bytes * (end - start)
            if left < 0:
                break
            stop += 1
        yield Piece(first, stop, start, end)
        first = stop


def shared(one: Layout, other: Layout) -> Layout:
    """What travels between two ranks: the layers of both, with the heads that both hold. Says nothing of pages."""
    layers = []
    for here, there in zip(one.layers, other.layers, strict=True):
        heads = overlap(here, there)
        layers.append(here.between(heads.start, heads.stop))
    return structs.replace(one, layers=tuple(layers), order="slots")


def part(layout: Layout, piece: Piece) -> Layout:
    """Only the layers of a piece."""
    return structs.replace(layout, layers=layout.layers[piece.first : piece.end])


def packed(travelling: Layout, piece: Piece) -> Place:
    """The bytes of a chunk as one page; its positions count from the begin of the piece."""
    layout = part(travelling, piece)
    return Place(structs.replace(layout, page_size=piece.stop - piece.start), (0,))


def piece_bytes(travelling: Layout, piece: Piece) -> int:
    """How many bytes a chunk holds."""
    return part(travelling, piece).slot_bytes * (piece.stop - piece.start)


def gather(source: Place, travelling: Layout, piece: Piece) -> list[Copy]:
    """From pages to a chunk."""
    return _piecewise(source, packed(travelling, piece), piece, into_pages=False)


def scatter(target: Place, travelling: Layout, piece: Piece) -> list[Copy]:
    """From a chunk to pages: those heads of the target that travel."""
    return _piecewise(target, packed(travelling, piece), piece, into_pages=True)


def _piecewise(place: Place, chunk: Place, piece: Piece, *, into_pages: bool) -> list[Copy]:
    if not 0 <= piece.start < piece.stop <= place.length:
        raise LocalError(f"positions [{piece.start}, {piece.stop}) are not in {place.length}")
    if not 0 <= piece.first < piece.end <= len(place.layout.layers):
        raise LocalError(
            f"layers [{piece.first}, {piece.end}) are not in {len(place.layout.layers)}"
        )
    runs = list(_runs(place, chunk, piece.start, piece.stop, piece.start))
    made = []
    for number, layer in enumerate(chunk.layout.layers, piece.first):
        head = layer.first - place.layout.layers[number].first
        for slot, inside, count in runs:
            if into_pages:
                made.append(Copy(0, number, inside, slot, count, 0, head, layer.held))
            else:
                made.append(Copy(0, number, slot, inside, count, head, 0, layer.held))
    return made


def _ranges(heads: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Numbers in order as half-open ranges."""
    begin = 0
    for index in range(1, len(heads) + 1):
        if index == len(heads) or heads[index] != heads[index - 1] + 1:
            yield heads[begin], heads[index - 1] + 1
            begin = index


def _runs(
    one: Place, other: Place, start: int, end: int, shift: int = 0
) -> Iterator[tuple[int, int, int]]:
    """(slot, slot, count) of [start, end), where `other` counts from `shift`: as long as both lie in a row."""
    if start == end:
        return
    theirs = _stretches(other, start - shift, end - shift)
    there, space = next(theirs)
    for begin, length in _stretches(one, start, end):
        here, room = begin, length
        while room:
            if not space:
                there, space = next(theirs)
            count = min(room, space)
            yield here, there, count
            here, there, room, space = here + count, there + count, room - count, space - count


def _stretches(place: Place, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(slot, count) of positions that lie in a row: over pages that follow each other, if the order lets them."""
    size, join = place.layout.page_size, place.layout.order == "slots"
    first, offset = divmod(start, size)
    last = -(-end // size)  # pages behind this one are not needed
    slot, count = place.pages[first] * size + offset, size - offset
    for page in place.pages[first + 1 : last]:
        if join and page * size == slot + count:
            count += size
        else:
            yield slot, count
            slot, count = page * size, size
    yield slot, count - (last * size - end)
