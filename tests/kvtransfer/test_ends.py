"""Pages of one node come to another through every channel: the same bytes, counted, and damage is noticed."""

from typing import Final

import numpy as np
import pytest
from msgspec import structs

from kvtransfer.channel import CHUNK_BYTES, PLACES
from kvtransfer.channels import CHANNELS
from kvtransfer.config import HandoverConfig
from kvtransfer.ends import Arrivals, Deliveries
from kvtransfer.giving import Giving
from kvtransfer.layout import Layer, Layout
from kvtransfer.taking import Taking
from protocol.errors import PeerError
from protocol.messages import KvAccept, KvChunk, KvCredit, KvOffer
from protocol.tensor import Tensor
from tests.kvtransfer import layouts
from tests.kvtransfer.cases import CASES

CONFIG: Final = HandoverConfig(least=1)
LAYERS: Final = (
    *[Layer("target", "bfloat16", 3, 64, 0, 3)] * 4,
    Layer("features", "bfloat16", 1, 576, 0, 1, parts=1),
)
LENGTH: Final = 3000
"""Tokens; a layer of them is larger than a chunk, and all of it larger than all places."""


class Pair:
    """A prefill node with everything computed, and a verifier with empty pages of another shape."""

    def __init__(self, channel: str, theirs: Layout, ours: Layout) -> None:
        random = np.random.default_rng(7)
        self.ours = ours
        self.values = layouts.whole(layouts.Shape(LAYERS, LENGTH), 7)
        self.tables = [
            random.permutation(-(-LENGTH // layout.page_size)).tolist() for layout in (theirs, ours)
        ]
        there = layouts.filled(theirs, self.tables[0], len(self.tables[0]), self.values)
        pages, self.memory = layouts.empty(ours, len(self.tables[1]))
        self.taking = Taking(CONFIG, ours, (channel,))
        self.giving = Giving(CONFIG, theirs, tuple(CHANNELS), CHUNK_BYTES)
        self.deliveries, self.arrivals = Deliveries(there), Arrivals(pages)
        self.taking.link_up(1)

    def begin(self, request: int = 1, start: int = 0) -> None:
        """Offered, accepted and computed."""
        assert self.taking.offer(request, tuple(range(LENGTH)), start, 0.0)
        offer = next(each for each in self.taking.messages(1) if isinstance(each, KvOffer))
        job = self.giving.offered(1, offer, 0.0)
        accept = self.deliveries.accept(job)
        assert isinstance(accept, KvAccept)
        lease = self.taking.accepted(1, accept)
        assert lease is not None
        self.arrivals.open(lease)
        self.giving.computed(job, LENGTH)

    def sent(self) -> list[KvChunk]:
        return list(self.deliveries.chunks(self.giving, 1, lambda _job: self.tables[0], 0.0))

    def take(self, chunk: KvChunk) -> bool:
        lease = self.taking.chunk(1, chunk)
        assert lease is not None
        self.arrivals.write(lease, self.tables[1], chunk)
        return self.taking.landed(lease, chunk, 0.0)

    def say(self) -> None:
        for message in self.taking.messages(1):
            if isinstance(message, KvCredit):
                self.deliveries.credit(1, message)

    def close(self) -> None:
        self.deliveries.link_down(1)
        self.arrivals.link_down(1)


@pytest.mark.parametrize("channel", CASES)
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (Layout(LAYERS, 16), Layout(LAYERS, 16)),
        (Layout(LAYERS, 16), Layout(LAYERS, 32, "heads")),
        (
            Layout(LAYERS, 32),
            Layout(tuple(x.between(1, 3) if x.heads > 1 else x for x in LAYERS), 16),
        ),
    ],
    ids=["alike", "other pages", "two heads"],
)
def test_a_prompt_arrives_and_costs_what_its_layout_says(
    channel: str, theirs: Layout, ours: Layout
) -> None:
    pair = Pair(channel, theirs, ours)
    pair.begin()
    done = False
    while not done:
        chunks = pair.sent()
        assert 0 < len(chunks) <= PLACES
        for chunk in chunks:
            done = pair.take(chunk)
        pair.say()
    counted = {pair.deliveries.sent_bytes, pair.arrivals.taken_bytes}
    assert counted == {ours.slot_bytes * (LENGTH - 1)}
    found = layouts.read(ours, pair.tables[1], pair.memory, LENGTH - 1)
    for layer, value, arrived in zip(ours.layers, pair.values, found, strict=True):
        assert arrived.tobytes() == value[: LENGTH - 1, :, layer.first : layer.end].tobytes()
    pair.close()


def test_a_second_prompt_uses_the_places_of_the_first() -> None:
    pair = Pair("shm" if "shm" in CHANNELS else "zmq", Layout(LAYERS, 16), Layout(LAYERS, 16))
    pair.begin()
    pair.begin(request=2, start=LENGTH - 5)
    for _ in range(100):
        for chunk in pair.sent():
            pair.take(chunk)
        pair.say()
    assert not pair.taking.leases
    assert pair.arrivals.taken_bytes == pair.ours.slot_bytes * (LENGTH - 1 + 4)
    pair.close()


def test_a_damaged_chunk_is_not_written() -> None:
    pair = Pair("zmq", Layout(LAYERS, 16), Layout(LAYERS, 16))
    pair.begin()
    chunk = pair.sent()[0]
    before = [data.tobytes() for data in pair.memory]
    assert chunk.parcel.data is not None
    wrong = bytearray(chunk.parcel.data.data)
    wrong[100] ^= 4
    parcel = structs.replace(chunk.parcel, data=Tensor("uint8", (len(wrong),), bytes(wrong)))
    with pytest.raises(PeerError, match="damaged"):
        pair.take(structs.replace(chunk, parcel=parcel))
    assert [data.tobytes() for data in pair.memory] == before


def test_places_that_were_not_lent_cannot_be_given_back() -> None:
    pair = Pair("zmq", Layout(LAYERS, 16), Layout(LAYERS, 16))
    with pytest.raises(PeerError, match="none were lent"):
        pair.deliveries.credit(1, KvCredit((0,)))
    pair.begin()
    with pytest.raises(PeerError, match="not away"):
        pair.deliveries.credit(1, KvCredit((0,)))
