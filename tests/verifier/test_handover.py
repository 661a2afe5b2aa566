"""Prompts that others compute, told as stories of the verifier's core: the prefill node has link 20."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from kvtransfer.config import HandoverConfig
from kvtransfer.layout import Layer, Layout
from kvtransfer.leases import Lease
from kvtransfer.plan import piece_bytes
from kvtransfer.taking import Taking
from protocol import attributes
from protocol.errors import PeerError
from protocol.messages import (
    AnyMessage,
    Heartbeat,
    KvAbort,
    KvAccept,
    KvChunk,
    KvCredit,
    KvOffer,
    KvTaken,
    Parcel,
    Piece,
    Report,
)
from tests.verifier.rig import tokens
from tests.verifier.test_core import FRONT, Rig
from verifier.handover import Supply

PREFILL: Final = 20
LAYER: Final = Layer("target", "uint8", 1, 1, 0, 1)
LAYOUT: Final = Layout((LAYER, LAYER), page_size=4)
CONFIG: Final = HandoverConfig(least=4, accept_seconds=1, move_seconds=2, whole_seconds=9)
PROMPT: Final = tuple(range(1, 12))


class Memory:
    """Notes what is written where; finds no channel of the names `unknown`, and damage in chunks of place 9."""

    def __init__(self, *unknown: str) -> None:
        self.written: list[tuple[tuple[int, ...], Piece]] = []
        self._unknown = unknown

    def open(self, lease: Lease) -> None:
        if lease.channel in self._unknown:
            raise PeerError("it leads nowhere")

    def write(self, lease: Lease, held: Sequence[int], message: KvChunk) -> int:
        assert message.piece.stop <= lease.end
        if message.parcel.place == 9:
            raise PeerError("damaged")
        self.written.append((tuple(held), message.piece))
        return message.parcel.size

    def link_down(self, link: int) -> None:
        assert link == PREFILL


class Stage(Rig):
    """A core with one prefill node."""

    def __init__(self, *unknown: str, **settings: Any) -> None:
        self.memory = Memory(*unknown)
        taking = Taking(CONFIG, LAYOUT, ("shm", "zmq"))
        super().__init__(supply=Supply(taking, self.memory), **settings)
        self.up(PREFILL, "prefill")

    def offered(self, request: int = 1, prompt: Sequence[int] = PROMPT, **fields: Any) -> KvOffer:
        """A prompt comes, and the prefill node is asked."""
        self.submit(request, prompt, **fields)
        assert self.step() == []
        [offer] = self.says(PREFILL)
        assert isinstance(offer, KvOffer)
        return offer

    def accepted(self, **fields: Any) -> KvOffer:
        """And will compute it."""
        offer = self.offered(**fields)
        channel = offer.channels[0]
        self.hear(PREFILL, KvAccept(offer.request, offer.epoch, channel, b"hint", LAYOUT.encode()))
        return offer

    def chunk(self, offer: KvOffer, start: int, stop: int, place: int = 0) -> None:
        """Both layers of these positions."""
        piece = Piece(0, 2, start, stop)
        parcel = Parcel(place, piece_bytes(LAYOUT, piece))
        self.hear(PREFILL, KvChunk(offer.request, offer.epoch, piece, parcel))

    def outcomes(self) -> dict[str, int]:
        """How hand-overs ended, as far as some did."""
        facts = self.core.facts()
        assert sum(facts.histograms["handover_seconds"].counts) == sum(
            facts.counters["handovers"].values()
        )
        return {how: count for how, count in facts.counters["handovers"].items() if count}

    def answer(self) -> list[int]:
        """What is said until nothing is left to do."""
        return tokens(self.run())


WANTED: Final = [12, 13, 14, 15, 16, 17, 18, 19]
"""The target counts up."""


def test_a_choice_is_left_out_of_steps_until_its_pages_are_filled() -> None:
    stage = Stage()
    offer = stage.accepted()
    assert (offer.tokens, offer.start, offer.end) == (PROMPT, 0, 10)
    assert offer.channels == ("shm", "zmq")
    stage.chunk(offer, 0, 6)
    assert stage.step() == []
    stage.chunk(offer, 6, 10, place=1)
    assert stage.says(PREFILL) == [KvTaken(offer.request, offer.epoch), KvCredit((0, 1))]
    assert stage.step() == [PROMPT[10:]]  # the anchor alone
    assert stage.answer() == WANTED
    assert stage.outcomes() == {"taken": 1}
    counters = stage.core.facts().counters
    assert (counters["handed_tokens"], counters["handed_bytes"]) == ({"": 10}, {"": 40})
    held = {pages for pages, _ in stage.memory.written}
    assert len(held) == 1  # the pages of the choice, all of them from the first chunk on
    assert stage.core.scheduler.pool.free == stage.pages


def test_others_go_on_meanwhile() -> None:
    stage = Stage()
    stage.submit(1, (30, 31))
    assert stage.step() == [(30, 31)]
    stage.submit(2, PROMPT)
    assert stage.step() == [(32,)]
    assert [type(each) for each in stage.says(PREFILL)] == [KvOffer]
    assert stage.step() == [(33,)]


def test_a_prompt_that_is_handed_over_is_shared_like_any_other() -> None:
    stage = Stage()
    offer = stage.accepted()
    stage.chunk(offer, 0, 10)
    stage.says(PREFILL)
    stage.submit(2, PROMPT)
    assert stage.step() == [PROMPT[10:], PROMPT[8:]]  # too little is missing for another offer
    assert stage.says(PREFILL) == []


def test_short_prompts_and_those_that_are_scored_are_computed_here() -> None:
    stage = Stage()
    stage.submit(1, (1, 2, 3, 4))
    assert stage.step() == [(1, 2, 3, 4)]
    stage.submit(2, PROMPT, prompt_logprobs=0)
    assert PROMPT in stage.step()
    assert stage.says(PREFILL) == []


@pytest.mark.parametrize("filled", [0, 4, 6])
def test_a_prefill_node_that_is_gone_leaves_the_rest_to_us(filled: int) -> None:
    stage = Stage()
    offer = stage.accepted()
    if filled:
        stage.chunk(offer, 0, filled)
    stage.down(PREFILL)
    assert stage.step() == [PROMPT[filled:]]
    assert stage.answer() == WANTED
    assert stage.outcomes() == {"link": 1}


def test_an_abort_leaves_the_rest_to_us() -> None:
    stage = Stage()
    offer = stage.accepted()
    stage.chunk(offer, 0, 5)
    stage.hear(PREFILL, KvAbort(offer.request, offer.epoch, "drained"))
    assert stage.step() == [PROMPT[5:]]
    assert stage.says(PREFILL) == [KvCredit((0,))]  # nothing is answered
    assert stage.outcomes() == {"aborted": 1}
    assert stage.core.facts().counters["handed_tokens"] == {"": 5}


def test_a_refusal_costs_nothing_but_its_way() -> None:
    stage = Stage()
    offer = stage.offered()
    stage.hear(PREFILL, KvAbort(offer.request, offer.epoch, "full"))
    assert stage.step() == [PROMPT]
    assert stage.outcomes() == {"refused": 1}


@pytest.mark.parametrize(("seconds", "filled"), [(1.0, None), (9.0, 0), (2.0, 4)])
def test_whoever_waited_too_long_waits_no_more(seconds: float, filled: int | None) -> None:
    """Offered, accepted and moving each have their bound, and the loop wakes for it."""
    stage = Stage()
    offer = stage.offered() if filled is None else stage.accepted()
    if filled:
        stage.chunk(offer, 0, filled)
        stage.says(PREFILL)
    assert stage.core.deadline(stage.now) == seconds
    stage.now = seconds
    assert stage.step() == [PROMPT[filled or 0 :]]
    [word] = stage.says(PREFILL)
    assert isinstance(word, KvAbort)
    assert stage.outcomes() == {"late": 1}
    assert stage.answer() == WANTED


def test_a_damaged_chunk_ends_it_and_its_place_goes_back() -> None:
    stage = Stage()
    offer = stage.accepted()
    stage.chunk(offer, 0, 4)
    stage.chunk(offer, 4, 10, place=9)
    assert stage.says(PREFILL) == [KvAbort(1, offer.epoch, "damaged"), KvCredit((0, 9))]
    assert stage.step() == [PROMPT[4:]]
    assert stage.outcomes() == {"fault": 1}


def test_a_chunk_out_of_turn_ends_it() -> None:
    stage = Stage()
    offer = stage.accepted()
    stage.chunk(offer, 4, 10)
    assert stage.memory.written == []
    assert stage.step() == [PROMPT]
    assert stage.outcomes() == {"fault": 1}


def test_a_channel_that_leads_nowhere_is_not_offered_again() -> None:
    stage = Stage("shm")
    stage.accepted()
    assert stage.outcomes() == {"fault": 1}
    assert stage.answer() == WANTED
    stage.says(PREFILL)
    again = stage.offered(request=2, prompt=tuple(reversed(PROMPT)))
    assert again.channels == ("zmq",)


def test_pages_that_do_not_fit_are_refused() -> None:
    stage = Stage()
    offer = stage.offered()
    other = Layout((LAYER,), page_size=4).encode()
    stage.hear(PREFILL, KvAccept(offer.request, offer.epoch, "zmq", b"", other))
    assert stage.step() == [PROMPT]
    assert stage.outcomes() == {"fault": 1}


def test_a_client_that_leaves_ends_it() -> None:
    stage = Stage()
    offer = stage.accepted()
    stage.down(FRONT)
    [word] = stage.says(PREFILL)
    assert word == KvAbort(offer.request, offer.epoch, "front door gone")
    stage.chunk(offer, 0, 10)  # it was on its way
    assert stage.memory.written == []
    assert stage.outcomes() == {"dropped": 1}
    assert stage.core.scheduler.pool.free == stage.pages


def test_a_choice_that_loses_its_pages_wants_no_more_of_them() -> None:
    """Somebody who came before it needs them: it comes back, and asks anew."""
    stage = Stage(pages=7)
    stage.submit(1, (50, 51, 52), max_tokens=20)
    stage.step()
    stage.submit(2, PROMPT)
    stage.step()
    [offer] = stage.says(PREFILL)
    assert isinstance(offer, KvOffer)
    said: list[AnyMessage] = []
    for _ in range(24):
        stage.step()
        said += stage.says(PREFILL)
    assert KvAbort(offer.request, offer.epoch, "its pages are needed elsewhere") in said
    [again] = [each for each in said if isinstance(each, KvOffer)]
    assert again.epoch > offer.epoch
    stage.chunk(offer, 0, 10)
    assert stage.memory.written == []


def test_a_node_that_failed_goes_without_some_prompts() -> None:
    stage = Stage()
    for request in range(1, 6):
        stage.submit(request, (*range(request, request + 10), 40))
        stage.step()
        for message in stage.says(PREFILL):
            if isinstance(message, KvOffer):
                stage.hear(PREFILL, KvAbort(message.request, message.epoch, "no"))
        stage.run()
    assert stage.outcomes() == {
        "refused": 2
    }  # the first and the third; the next two it goes without


def test_a_draining_node_or_one_with_much_to_do_is_not_asked() -> None:
    for heartbeat in (Heartbeat("draining"), Heartbeat(load=CONFIG.queue)):
        stage = Stage()
        stage.hear(PREFILL, heartbeat)
        stage.submit(1, PROMPT)
        assert stage.step() == [PROMPT]
        stage.run()
        stage.hear(PREFILL, Heartbeat())
        stage.offered(2, tuple(reversed(PROMPT)))


def test_what_it_reports_is_passed_on_under_the_name_of_its_link() -> None:
    stage = Stage()
    stage.hear(PREFILL, Report("somebody", "verifier", 3))
    assert [(each.node_id, each.role) for each in stage.core.reports] == [("prefill-20", "prefill")]
    stage.down(PREFILL)
    assert stage.core.reports == []


def test_a_trace_shows_it() -> None:
    stage = Stage()
    offer = stage.accepted(trace=f"00-{1:032x}-{2:016x}-01")
    stage.now = 0.5
    stage.chunk(offer, 0, 10)
    [span] = [each for each in stage.core.record.spans.take() if each.name == attributes.HANDOVER]
    assert (span.start, span.end, span.parent) == (0.0, 0.5, attributes.CHOICE)
    assert span.attributes == {
        attributes.PREFILL_NODE: "prefill-20",
        attributes.END: "taken",
        attributes.EPOCH: offer.epoch,
        attributes.HANDED_TOKENS: 10,
        attributes.CHANNEL: "shm",
    }


def test_words_that_have_no_place_are_counted() -> None:
    stage = Stage()
    stage.hear(PREFILL, KvTaken(1, 1))
    assert stage.core.counters["messages_unexpected"] == 1
