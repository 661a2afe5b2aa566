"""Hand-overs with two prefill nodes: whatever is cut, aborted or late, no position ever holds what is not its own.

The memory of the verifier holds, for each layer and slot, the whole prefix that made the value. Its pages are given to
another request as soon as a lease is dropped: so a chunk of an old lease that was let in would be seen.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from kvtransfer.channel import PLACES, Places
from kvtransfer.config import HandoverConfig
from kvtransfer.giving import Giving, Job
from kvtransfer.layout import Layer, Layout
from kvtransfer.leases import Lease, State
from kvtransfer.plan import piece_bytes
from kvtransfer.taking import Taking
from protocol.errors import PeerError
from protocol.messages import (
    AnyMessage,
    KvAbort,
    KvAccept,
    KvChunk,
    KvCredit,
    KvOffer,
    KvTaken,
    Parcel,
    Tokens,
)

LAYER: Final = Layer("target", "uint8", 1, 1, 0, 1)
LAYOUT: Final = Layout((LAYER, LAYER, LAYER), page_size=4)
CONFIG: Final = HandoverConfig(least=2, jobs=2, accept_seconds=1, move_seconds=2, whole_seconds=20)
CHUNK: Final = 12  # bytes: two positions of all layers, or twelve of one

Value = tuple[int, Tokens]


@dataclass
class Node:
    """A prefill node with its end of a link; `life` counts the links."""

    link: int
    giving: Giving = field(default_factory=lambda: Giving(CONFIG, LAYOUT, ("zmq",), CHUNK))
    places: Places = field(default_factory=lambda: Places(PLACES))
    cells: dict[int, list[Value]] = field(default_factory=dict)  # what is in each place
    inbox: deque[AnyMessage] = field(default_factory=deque)
    outbox: deque[AnyMessage] = field(default_factory=deque)

    def hear(self, message: AnyMessage, now: float) -> None:
        match message:
            case KvOffer():
                try:
                    job = self.giving.offered(self.link, message, now)
                except PeerError as error:
                    self.outbox.append(KvAbort(message.request, message.epoch, str(error)))
                    return
                self.outbox.append(
                    KvAccept(message.request, message.epoch, job.channel, b"", LAYOUT.encode())
                )
            case KvCredit():
                for place in message.places:
                    self.places.give_back(place)
            case KvTaken() | KvAbort():
                self.giving.over(self.link, message)
            case _:
                raise AssertionError(message)

    def send(self, now: float) -> bool:
        """One chunk, if there is one and a place for it."""
        job = next(self.giving.sending(self.link), None)
        if job is None or self.places.next is None:
            return False
        piece = job.pieces[0]
        place = self.places.seal(piece_bytes(job.travelling, piece), CHUNK)
        self.cells[place] = [
            (layer, job.offer.tokens[: position + 1])
            for layer in range(piece.first, piece.end)
            for position in range(piece.start, piece.stop)
        ]
        parcel = Parcel(place, piece_bytes(job.travelling, piece))
        self.outbox.append(KvChunk(job.offer.request, job.offer.epoch, piece, parcel))
        self.giving.sent(job, now)
        return True


class Verifier:
    """Takes chunks into a memory of a few slots that requests share in turn."""

    def __init__(self) -> None:
        self.taking = Taking(CONFIG, LAYOUT, ("zmq",))
        self.memory: dict[tuple[int, int], Value] = {}  # by (layer, slot)
        self.slots: dict[int, int] = {}  # the first slot of each request that holds pages
        self.tokens: dict[int, Tokens] = {}
        self.computed: dict[int, int] = {}
        self.free = [0, 100]
        self.last = 0

    def begin(self, tokens: Tokens, start: int, now: float, request: int = 0) -> None:
        """A new request, or one that comes back after it lost its pages."""
        if not self.free:
            return
        if not request:
            request = self.last = self.last + 1
        base = self.slots[request] = self.free.pop(0)
        self.tokens[request], self.computed[request] = tokens, start
        for layer in range(len(LAYOUT.layers)):
            for position in range(len(tokens)):
                known = position < start
                value = (layer, tokens[: position + 1]) if known else (layer, ())
                self.memory[layer, base + position] = value
        self.taking.offer(request, tokens, start, now)

    def end(self, request: int, reason: str) -> None:
        """The request is gone, and its pages are somebody else's at once."""
        if (lease := self.taking.drop(request, reason)) is not None:
            self.stopped(lease)
        self.free.append(self.slots.pop(request))

    def stopped(self, lease: Lease) -> None:
        self.computed[lease.request] = lease.complete

    def hear(self, node: Node, message: AnyMessage, now: float) -> None:
        match message:
            case KvAccept():
                self.taking.accepted(node.link, message)
            case KvChunk():
                lease = self.taking.chunk(node.link, message)
                if lease is not None:
                    self.write(lease, message, node.cells[message.parcel.place])
                    if self.taking.landed(lease, message, now):
                        self.stopped(lease)
            case KvAbort():
                if (lease := self.taking.aborted(node.link, message)) is not None:
                    self.stopped(lease)
            case _:
                raise AssertionError(message)

    def write(self, lease: Lease, message: KvChunk, values: list[Value]) -> None:
        piece, base = message.piece, self.slots[lease.request]
        cells = iter(values)
        for layer in range(piece.first, piece.end):
            for position in range(piece.start, piece.stop):
                self.memory[layer, base + position] = next(cells)


tokens = st.lists(st.integers(0, 1), min_size=3, max_size=14).map(tuple)
number = st.integers(0, 1000)


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.verifier = Verifier()
        self.nodes: list[Node] = []
        self.links = 0
        for _ in range(2):
            self.connect()

    def connect(self) -> None:
        self.links += 1
        self.nodes.append(Node(self.links))
        self.verifier.taking.link_up(self.links)

    def say(self) -> None:
        for node in self.nodes:
            node.inbox += self.verifier.taking.messages(node.link)

    @rule(text=tokens, start=number)
    def a_prompt_comes(self, text: Tokens, start: int) -> None:
        self.verifier.begin(text, start % len(text), self.now)

    @rule(which=number)
    def a_verifier_reads(self, which: int) -> None:
        node = self.nodes[which % 2]
        if node.outbox:
            self.verifier.hear(node, node.outbox.popleft(), self.now)

    @rule(which=number)
    def words_leave_the_verifier(self, which: int) -> None:
        node = self.nodes[which % 2]
        node.inbox += self.verifier.taking.messages(node.link)

    @rule(which=number)
    def a_prefill_node_reads(self, which: int) -> None:
        node = self.nodes[which % 2]
        if node.inbox:
            node.hear(node.inbox.popleft(), self.now)

    @rule(which=number, more=st.integers(1, 6), job=number)
    def a_prefill_node_computes(self, which: int, more: int, job: int) -> None:
        node = self.nodes[which % 2]
        jobs = list(node.giving.jobs.values())
        if jobs:
            one = jobs[job % len(jobs)]
            node.giving.computed(one, one.ready + more)

    @rule(which=number)
    def a_prefill_node_sends(self, which: int) -> None:
        self.nodes[which % 2].send(self.now)

    @rule(which=number)
    def a_prefill_node_gives_up(self, which: int) -> None:
        node = self.nodes[which % 2]
        if node.giving.jobs:
            job: Job = next(iter(node.giving.jobs.values()))
            node.outbox.append(node.giving.drop(job, "planned"))

    @precondition(lambda self: self.verifier.slots)
    @rule(which=number)
    def a_request_ends(self, which: int) -> None:
        held = sorted(self.verifier.slots)
        self.verifier.end(held[which % len(held)], "client gone")

    @precondition(lambda self: self.verifier.slots)
    @rule(which=number)
    def a_request_loses_its_pages_and_comes_back(self, which: int) -> None:
        here = self.verifier
        request = sorted(here.slots)[which % len(here.slots)]
        here.end(request, "preempted")
        here.begin(here.tokens[request], 0, self.now, request)

    @rule(which=number)
    def a_link_is_cut(self, which: int) -> None:
        node = self.nodes.pop(which % 2)
        for lease in self.verifier.taking.link_down(node.link):
            self.verifier.stopped(lease)
        self.connect()

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for lease in self.verifier.taking.tick(self.now):
            self.verifier.stopped(lease)
        for node in self.nodes:
            for job in node.giving.late(self.now):
                node.outbox.append(node.giving.drop(job, "late"))

    @invariant()
    def what_counts_as_computed_is_right(self) -> None:
        here = self.verifier
        for request, base in here.slots.items():
            lease = here.taking.leases.get(request)
            known = lease.complete if lease else here.computed[request]
            for layer in range(len(LAYOUT.layers)):
                for position in range(known):
                    prefix = here.tokens[request][: position + 1]
                    assert here.memory[layer, base + position] == (layer, prefix)
                for position in range(known, len(here.tokens[request])):
                    value = here.memory[layer, base + position]
                    assert value in {(layer, ()), (layer, here.tokens[request][: position + 1])}

    @invariant()
    def every_state_ends_some_time(self) -> None:
        for lease in self.verifier.taking.leases.values():
            bounds = {
                State.OFFERED: CONFIG.accept_seconds,
                State.ACCEPTED: CONFIG.whole_seconds,
                State.MOVING: CONFIG.move_seconds,
            }
            most = min(self.now + bounds[lease.state], lease.begun + CONFIG.whole_seconds)
            assert lease.until <= most
        for node in self.nodes:
            for job in node.giving.jobs.values():
                assert job.until <= job.begun + CONFIG.whole_seconds

    def teardown(self) -> None:
        """When nobody wants anything any more, nobody holds anything: no lease, no job, no place."""
        for request in list(self.verifier.slots):
            self.verifier.end(request, "over")
        self.say()
        for _ in range(100):
            for node in self.nodes:
                while node.inbox:
                    node.hear(node.inbox.popleft(), self.now)
                while node.outbox:
                    self.verifier.hear(node, node.outbox.popleft(), self.now)
            self.say()
        assert not self.verifier.taking.leases
        for node in self.nodes:
            assert not node.giving.jobs
            for _ in range(PLACES):
                node.places.seal(1, 1)  # all of them are free


History.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestHistory = History.TestCase


# --- single steps --------------------------------------------------------------------------------------------------

TEXT: Final = tuple(range(10))


def offered(start: int = 0) -> tuple[Verifier, Node]:
    """A verifier that has offered TEXT to its only node, and the node that was told so."""
    verifier, node = Verifier(), Node(1)
    verifier.taking.link_up(1)
    verifier.begin(TEXT, start, 0.0)
    node.inbox += verifier.taking.messages(1)
    return verifier, node


def deliver(verifier: Verifier, node: Node, now: float = 0.0) -> list[AnyMessage]:
    """All words both ways until nobody has any; what the verifier said."""
    said: list[AnyMessage] = []
    while node.inbox or node.outbox or node.send(now):
        while node.inbox:
            node.hear(node.inbox.popleft(), now)
        while node.outbox:
            verifier.hear(node, node.outbox.popleft(), now)
        words = verifier.taking.messages(1)
        node.inbox += words
        said += words
    return said


@pytest.mark.parametrize("steps", [[9], [4, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_a_prompt_arrives_while_it_is_still_computed_and_all_but_its_last_token(
    steps: list[int],
) -> None:
    verifier, node = offered()
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    for ready in steps:
        node.giving.computed(job, ready)
        said = deliver(verifier, node)
    assert any(isinstance(each, KvTaken) for each in said)
    assert verifier.computed[1] == len(TEXT) - 1
    assert not node.giving.jobs
    assert not verifier.taking.leases


def test_what_is_known_already_does_not_travel() -> None:
    verifier, node = offered(start=5)
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    node.giving.computed(job, 9)
    assert min(piece.start for piece in job.pieces) == 5


def test_short_prompts_are_not_handed_over_and_nothing_is_without_a_node() -> None:
    verifier = Verifier()
    assert not verifier.taking.offer(1, TEXT, 0, 0.0)
    verifier.taking.link_up(1)
    assert not verifier.taking.offer(1, TEXT, 8, 0.0)
    assert verifier.taking.offer(1, TEXT, 7, 0.0)
    assert not verifier.taking.offer(1, TEXT, 7, 0.0)  # it was


def test_a_node_that_is_full_is_not_asked_and_one_that_knows_the_prompt_is_preferred() -> None:
    taking = Taking(CONFIG, LAYOUT, ("zmq",))
    for link in (1, 2):
        taking.link_up(link)
    assert taking.offer(1, TEXT, 0, 0.0)
    taking.drop(1, "over")
    taking.heard(1, 3)  # it has a little to do, but knows the text
    assert taking.offer(2, TEXT, 0, 0.0)
    assert taking.leases[2].link == 1
    assert taking.offer(3, tuple(reversed(TEXT)), 0, 0.0)  # a text that nobody knows
    assert taking.leases[3].link == 2
    taking.heard(2, 50)
    assert taking.offer(4, TEXT, 0, 0.0)
    assert taking.leases[4].link == 1
    assert taking.offer(5, TEXT, 0, 0.0)
    assert taking.leases[5].link == 2  # the first one has two already
    assert not taking.offer(6, TEXT, 0, 0.0) or taking.leases[6].link == 2


def test_both_sides_are_told_at_once_when_the_other_gives_up() -> None:
    verifier, node = offered()
    deliver(verifier, node)
    verifier.end(1, "client gone")
    assert [type(each) for each in verifier.taking.messages(1)] == [KvAbort]
    verifier, node = offered()
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    node.outbox.append(node.giving.drop(job, "drained"))
    assert deliver(verifier, node) == []  # nothing is answered
    assert not verifier.taking.leases


def test_an_offer_that_is_not_answered_is_withdrawn() -> None:
    verifier, _ = offered()
    assert verifier.taking.deadline() == CONFIG.accept_seconds
    assert verifier.taking.tick(0.9) == []
    [lease] = verifier.taking.tick(1.0)
    assert lease.complete == 0
    [word] = verifier.taking.messages(1)
    assert word == KvAbort(1, lease.epoch, "offered for too long")


def test_half_of_the_chunks_is_half_of_the_work() -> None:
    """Case 6 of the reported faults: the node goes while chunks are moving, and nobody waits for it."""
    verifier, node = offered()
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    node.giving.computed(job, 5)
    deliver(verifier, node, now=1.0)
    [lease] = verifier.taking.tick(3.0)
    assert lease.state is State.MOVING
    assert lease.complete == 5


@pytest.mark.parametrize(
    "change",
    [
        {"start": 2, "stop": 4},
        {"stop": 11},
        {"first": 2, "end": 4},
        {"stop": 0},
        {"first": 1, "end": 1},
    ],
)
def test_a_chunk_that_is_not_the_next_ends_the_lease(change: dict[str, int]) -> None:
    verifier, node = offered()
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    node.giving.computed(job, 2)
    assert node.send(0.0)
    chunk = node.outbox.pop()
    assert isinstance(chunk, KvChunk)
    wrong = structs.replace(chunk, piece=structs.replace(chunk.piece, **change))
    with pytest.raises(PeerError, match="not what comes next"):
        verifier.taking.chunk(1, wrong)
    assert [type(each) for each in verifier.taking.messages(1)] == [KvAbort, KvCredit]


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        (structs.replace(LAYOUT, model="other"), "model: other here,  there"),
        (structs.replace(LAYOUT, layers=(LAYER,)), "layers: 1 here, 3 there"),
    ],
)
def test_pages_that_do_not_fit_are_refused_with_both_values(layout: Layout, complaint: str) -> None:
    _, node = offered()
    node.giving = Giving(CONFIG, layout, ("zmq",), CHUNK)
    [offer] = node.inbox
    assert isinstance(offer, KvOffer)
    with pytest.raises(PeerError, match=complaint):
        node.giving.offered(1, offer, 0.0)
    assert not node.giving.jobs


def test_a_verifier_looks_at_the_layout_too() -> None:
    verifier, _ = offered()
    theirs = structs.replace(LAYOUT, rope="theta 3").encode()
    with pytest.raises(PeerError, match="rope:  here, theta 3 there"):
        verifier.taking.accepted(1, KvAccept(1, 1, "zmq", b"", theirs))
    assert not verifier.taking.leases


def test_an_adapter_makes_other_pages() -> None:
    taking, giving = Taking(CONFIG, LAYOUT, ("zmq",)), Giving(CONFIG, LAYOUT, ("zmq",), CHUNK)
    taking.link_up(1)
    taking.offer(1, TEXT, 0, 0.0, adapter="law")
    [offer] = taking.messages(1)
    assert isinstance(offer, KvOffer)
    assert giving.offered(1, offer, 0.0).layout.adapter == "law"
    with pytest.raises(PeerError, match="adapter: med here, law there"):
        giving.offered(1, structs.replace(offer, request=2, adapter="med"), 0.0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"start": 9}, r"positions \[9, 9\)"),
        ({"end": 11}, r"positions \[0, 11\)"),
        ({"layout": b"\xc1"}, "no layout"),
        ({"channels": ("pigeon",)}, "pigeon"),
    ],
)
def test_an_offer_that_cannot_be_is_refused(change: dict[str, object], complaint: str) -> None:
    _, node = offered()
    [offer] = node.inbox
    assert isinstance(offer, KvOffer)
    with pytest.raises(PeerError, match=complaint):
        node.giving.offered(1, structs.replace(offer, **change), 0.0)


def test_a_node_takes_so_many_offers_and_each_once() -> None:
    _, node = offered()
    [offer] = node.inbox
    assert isinstance(offer, KvOffer)
    node.giving.offered(1, offer, 0.0)
    with pytest.raises(PeerError, match="offered before"):
        node.giving.offered(1, offer, 0.0)
    node.giving.offered(1, structs.replace(offer, request=2), 0.0)
    with pytest.raises(PeerError, match="enough to do"):
        node.giving.offered(1, structs.replace(offer, request=3), 0.0)


def test_a_late_chunk_of_an_older_lease_is_dropped_and_its_place_goes_back() -> None:
    """The request lost its pages while a chunk was on its way, and came back with others."""
    verifier, node = offered()
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    node.giving.computed(job, 2)
    assert node.send(0.0)
    late = node.outbox.pop()
    assert isinstance(late, KvChunk)
    verifier.end(1, "preempted")
    verifier.begin(TEXT, 0, 0.0, request=1)
    node.inbox += verifier.taking.messages(1)
    deliver(verifier, node)
    assert verifier.taking.leases[1].state is State.ACCEPTED  # it would take this very piece
    assert verifier.taking.chunk(1, late) is None
    assert verifier.taking.messages(1) == [KvCredit((late.parcel.place,))]


def test_words_about_an_older_offer_do_not_end_the_present_one() -> None:
    verifier, node = offered()
    deliver(verifier, node)
    [job] = node.giving.jobs.values()
    epoch = job.offer.epoch
    for word in (KvAbort(1, epoch + 1), KvTaken(1, epoch + 1)):
        assert node.giving.over(1, word) is None
    assert verifier.taking.aborted(1, KvAbort(1, epoch + 1)) is None
    assert verifier.taking.aborted(2, KvAbort(1, epoch)) is None
    assert node.giving.over(1, KvAbort(1, epoch)) is job
