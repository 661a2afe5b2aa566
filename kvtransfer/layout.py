"""How a node's pages are laid out, as a value that travels; and whether two layouts can serve each other. Pure.

A *slot* is the place of one position in a page. A layer keeps for each slot `parts` (key and value, or one row of
features) of `head_size` numbers for each head that this rank holds.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec
from msgspec import structs

from protocol.errors import PeerError
from protocol.messages import Count, Part, Text
from protocol.tensor import ITEMSIZE

Role = Literal["target", "features", "draft"]
Order = Literal["slots", "heads"]
"""What is next to each other in a page: `slots` is [slot, part, head, number], `heads` [part, head, slot, number]."""


class Layer(Part, frozen=True):
    """One tensor over all pages. `heads` are those of the whole model, of which this rank has [first, end)."""

    role: Role
    dtype: Text
    heads: Count
    head_size: Count
    first: Count
    end: Count
    parts: Count = 2

    @property
    def held(self) -> int:
        """Heads of this rank."""
        return self.end - self.first

    @property
    def head_bytes(self) -> int:
        return self.head_size * ITEMSIZE[self.dtype]

    @property
    def slot_bytes(self) -> int:
        """Bytes of one position, on this rank."""
        return self.parts * self.held * self.head_bytes

    def between(self, first: int, end: int) -> "Layer":
        """The same with only these heads."""
        return structs.replace(self, first=first, end=end)


class Layout(Part, frozen=True):
    """Everything that must fit, or be made to fit, before bytes of one node mean anything on another.

    `rope`, `model`, `adapter` and `drafter` are fingerprints: equal texts are equal things, empty is none.
    """

    layers: tuple[Layer, ...]
    page_size: Count
    order: Order = "slots"
    rope: Text = ""
    model: Text = ""
    adapter: Text = ""
    drafter: Text = ""

    @property
    def slot_bytes(self) -> int:
        """Bytes of one position over all layers: what a token costs to move."""
        return sum(layer.slot_bytes for layer in self.layers)

    def only(self, *roles: Role) -> "Layout":
        """Without the layers of other roles, and without the drafter if nothing that is left is read by one."""
        layers = tuple(layer for layer in self.layers if layer.role in roles)
        drafter = self.drafter if any(layer.role != "target" for layer in layers) else ""
        return structs.replace(self, layers=layers, drafter=drafter)

    def of(self, adapter: str) -> "Layout":
        """Pages that hold what the model says under an adapter; empty: the model alone."""
        return structs.replace(self, adapter=adapter)

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


def decode(data: bytes) -> Layout:
    """A layout that a peer sent, or PeerError."""
    try:
        layout = msgspec.msgpack.decode(data, type=Layout)
    except msgspec.MsgspecError as error:
        raise PeerError(f"this is no layout: {error}") from error
    if layout.page_size < 1:
        raise PeerError("a page holds no positions")
    for number, layer in enumerate(layout.layers):
        if layer.dtype not in ITEMSIZE:
            raise PeerError(f"layer {number} has the dtype {layer.dtype!r}, which is unknown")
        if not layer.first < layer.end <= layer.heads or not layer.head_size or not layer.parts:
            raise PeerError(f"layer {number} holds nothing: {layer}")
    return layout


class Match(NamedTuple):
    """They can serve each other; `reshaped` names what differs and is made alike while copying."""

    reshaped: tuple[str, ...] = ()


class Difference(NamedTuple):
    """They cannot, and this is the first thing in the way."""

    what: str
    one: object
    other: object

    def __str__(self) -> str:
        return f"{self.what}: {self.one} here, {self.other} there"


def compatible(one: Layout, other: Layout) -> Match | Difference:
    """Whether pages of either can be copied into pages of the other. Symmetric, but for the order of the values."""
    if (found := difference(one, other)) is not None:
        return found
    for number, (here, there) in enumerate(zip(one.layers, other.layers, strict=True)):
        if not overlap(here, there):
            held = (f"[{here.first}, {here.end})", f"[{there.first}, {there.end})")
            return Difference(f"heads held of layer {number}", *held)
    kept = {
        "page size": (one.page_size, other.page_size),
        "order": (one.order, other.order),
        "heads": (_ranges(one), _ranges(other)),
    }
    return Match(tuple(what for what, (here, there) in kept.items() if here != there))


def difference(one: Layout, other: Layout) -> Difference | None:
    """The first thing in the way of any two ranks of these nodes, whatever heads they hold."""
    for what, here, there in _must(one, other):
        if here != there:
            return Difference(what, here, there)
    return None


def overlap(one: Layer, other: Layer) -> range:
    """Heads that both hold; maybe none."""
    return range(max(one.first, other.first), min(one.end, other.end))


def _must(one: Layout, other: Layout) -> Iterator[tuple[str, object, object]]:
    for what in ("model", "adapter", "drafter", "rope"):
        yield what, getattr(one, what), getattr(other, what)
    yield "layers", len(one.layers), len(other.layers)
    for number, (here, there) in enumerate(zip(one.layers, other.layers, strict=True)):
        for field in ("role", "dtype", "parts", "heads", "head_size"):
            what = f"{field.replace('_', ' ')} of layer {number}"
            yield what, getattr(here, field), getattr(there, field)


def _ranges(layout: Layout) -> list[tuple[int, int]]:
    return [(layer.first, layer.end) for layer in layout.layers]
