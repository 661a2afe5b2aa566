"""A prefill node's core, told as stories: verifiers have links 1 and 2."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest
from msgspec import structs

from engine.pages import PagePool
from kvtransfer.config import HandoverConfig
from kvtransfer.giving import Giving, Job
from kvtransfer.layout import Layer, Layout
from protocol import attributes
from protocol.errors import PeerError
from protocol.link import LinkDown, LinkUp, Received
from protocol.messages import (
    Ending,
    KvAbort,
    KvAccept,
    KvChunk,
    KvCredit,
    KvOffer,
    KvTaken,
    Parcel,
    Submit,
)
from protocol.spans import Context, traceparent
from verifier.config import SchedulerConfig
from verifier.prefill_core import PrefillCore
from verifier.prefill_record import Given

LAYER: Final = Layer("target", "uint8", 1, 1, 0, 1)
LAYOUT: Final = Layout((LAYER,), page_size=4)
CONFIG: Final = HandoverConfig(jobs=4, whole_seconds=9)
PROMPT: Final = tuple(range(1, 12))
PLACES: Final = 2


class Channels:
    """So many places for each link."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.free: dict[int, int] = {}

    def accept(self, job: Job) -> KvAccept:
        self.free.setdefault(job.link, PLACES)
        return KvAccept(job.offer.request, job.offer.epoch, "zmq", b"", LAYOUT.encode())

    def chunks(
        self, giving: Giving, link: int, held: Callable[[Job], Sequence[int]], now: float
    ) -> Iterator[KvChunk]:
        for job in list(giving.sending(link)):
            assert held(job)
            while job.pieces and self.free[link]:
                self.free[link] -= 1
                piece = job.pieces[0]
                giving.sent(job, now)
                yield KvChunk(job.offer.request, job.offer.epoch, piece, Parcel(0, 1))

    def credit(self, link: int, message: KvCredit) -> None:
        if self.free.get(link, PLACES) + len(message.places) > PLACES:
            raise PeerError("not away")
        self.free[link] += len(message.places)

    def link_down(self, link: int) -> None:
        self.free.pop(link, None)


class Stage:
    """A core with room for eight pages of four positions, and a forward of 16 tokens at most."""

    def __init__(self, pages: int = 8, layers: int = 1) -> None:
        self.now = 0.0
        self.layout = Layout((LAYER,) * layers, page_size=4)
        self.core = PrefillCore(
            SchedulerConfig(max_chunk=16),
            Giving(CONFIG, self.layout, ("zmq",), 40),
            Channels(),
            PagePool(pages, 4),
            context=40,
            vocabulary=100,
        )
        for link in (1, 2):
            self.core.handle(LinkUp(link, "verifier", f"v{link}"), 0.0)

    def hear(self, link: int, *messages: Any) -> None:
        self.core.handle(Received(link, messages), self.now)

    def offer(
        self, request: int = 1, link: int = 1, prompt: Sequence[int] = PROMPT, trace: str = ""
    ) -> None:
        end = len(prompt) - 1
        offer = KvOffer(
            request, request, tuple(prompt), 0, end, self.layout.encode(), ("zmq",), trace=trace
        )
        self.hear(link, offer)

    def step(self) -> list[tuple[int, ...]]:
        step = self.core.plan(self.now)
        if step is None:
            return []
        self.core.settle(step, self.now, self.now + 0.01)
        return [row.tokens for row in step.rows]

    def says(self, link: int = 1) -> list[Any]:
        """Words, and positions of chunks."""
        said: list[Any] = []
        while messages := self.core.outbox(link):
            said += [
                (each.piece.start, each.piece.stop) if isinstance(each, KvChunk) else each
                for each in messages
            ]
        return said

    def outcomes(self) -> dict[str, int]:
        return {how: n for how, n in self.core.facts().counters["offers"].items() if n}


def test_a_prompt_is_computed_sent_and_forgotten() -> None:
    stage = Stage()
    stage.offer()
    assert [type(each) for each in stage.says()] == [KvAccept]
    assert stage.core.heartbeat().load == 10
    assert stage.step() == [PROMPT[:10]]  # all but the anchor
    assert stage.core.heartbeat().load == 0
    assert stage.core.links_with_news == [1]
    assert stage.says() == [(0, 10)]
    assert stage.step() == []
    stage.hear(1, KvCredit((0,)), KvTaken(1, 1))
    assert stage.outcomes() == {"taken": 1}
    assert stage.core.idle
    assert stage.core.pool.free == 8


def test_every_prompt_leaves_a_line_and_a_traced_one_its_spans() -> None:
    stage = Stage(pages=16)
    long = range(1, 22)  # two forwards of at most 16 tokens
    stage.offer(7, prompt=long, trace=traceparent(Context(0xA, 0xB)))
    stage.offer(8, link=2)
    stage.now = 1.0
    assert [len(rows[0]) for rows in (stage.step(), stage.step())] == [16, 4]
    stage.now = 3.0
    stage.hear(1, KvTaken(7, 7))
    stage.core.handle(LinkDown(2, "silence"), 4.0)
    stage.core.draining = True
    stage.offer(9)
    taken, gone, refused = stage.core.record.endings
    assert taken == Given("v1", 7, 7, "taken", 21, 20, 3.0, "", f"{0xA:032x}")
    assert gone == Given("v2", 8, 8, "link", 11, 10, 4.0, "", "")
    assert (refused.number, refused.reason, refused.seconds) == (9, "refused", 0.0)
    assert refused.detail == "this prefill node is draining"
    spans = stage.core.record.spans.take()
    assert [(span.name, span.parent, span.last) for span in spans] == [
        (attributes.PREFILL, attributes.GIVEN, False),
        (attributes.PREFILL, attributes.GIVEN, False),
        (attributes.GIVEN, "", True),
    ]
    assert {(span.context, span.scope) for span in spans} == {(Context(0xA, 0xB), (1, 7, 7))}
    assert [span.attributes[attributes.STEP_TOKENS] for span in spans[:2]] == [16, 4]
    whole = spans[-1]
    assert (whole.start, whole.end) == (0.0, 3.0)
    assert whole.attributes == {
        attributes.VERIFIER: "v1",
        attributes.EPOCH: 7,
        attributes.HANDED_TOKENS: 20,
        attributes.CHANNEL: "zmq",
        attributes.END: "taken",
    }


def test_what_is_computed_leaves_while_the_rest_is_computed() -> None:
    stage = Stage(pages=16)
    stage.offer(prompt=range(1, 40))
    for start, stop in ((0, 16), (16, 32)):
        stage.step()
        assert (start, stop) in stage.says()
    assert stage.step() == [tuple(range(33, 39))]
    assert stage.says() == []  # both places are away
    stage.hear(1, KvCredit((0,)))
    assert stage.says() == [(32, 38)]


def test_prompts_share_a_forward_and_come_in_order() -> None:
    stage = Stage()
    for request, link in ((1, 1), (2, 2), (3, 1)):
        stage.offer(request, link, prompt=range(10 * request, 10 * request + 9))
    assert [row[0] for row in stage.step()] == [10, 20]
    assert [row[0] for row in stage.step()] == [30]


def test_a_known_prefix_is_sent_at_once() -> None:
    stage = Stage()
    stage.offer()
    stage.step()
    stage.says()
    stage.hear(1, KvCredit((0,)), KvTaken(1, 1))
    stage.offer(2)
    assert stage.step() == [PROMPT[8:10]]
    assert stage.says()[1:] == [(0, 8), (8, 10)]
    stage.hear(1, KvCredit((0, 0)), KvTaken(2, 2))
    stage.offer(3, prompt=PROMPT[:9])
    assert stage.step() == []  # all that is wanted is known
    assert stage.says()[1:] == [(0, 8)]


def test_who_finds_no_pages_waits_for_all_of_them_and_nobody_overtakes_it() -> None:
    stage = Stage(pages=5)
    stage.offer(1)
    stage.offer(2, prompt=range(20, 32))
    stage.offer(3, prompt=range(40, 45))
    assert stage.step() == [PROMPT[:10]]
    assert stage.step() == []
    stage.hear(1, KvTaken(1, 1))
    assert [row[0] for row in stage.step()] == [20, 40]


def test_a_verifier_that_is_gone_leaves_nothing() -> None:
    stage = Stage()
    stage.offer(1, link=1)
    stage.offer(1, link=2, prompt=range(20, 30))
    stage.step()
    stage.core.handle(LinkDown(1, "silence"), 0.0)
    assert list(stage.core.prompts) == [(2, 1)]
    assert stage.core.links_with_news == [2]
    stage.hear(2, KvAbort(1, 1, "client gone"))
    assert stage.core.pool.free == 8
    assert stage.outcomes() == {"aborted": 1, "link": 1}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tokens": (1, 2, 3, 100), "end": 3}, "token 100 is not below 100"),
        ({"tokens": tuple(range(50)), "end": 49}, "49 positions exceed 32"),
        ({"adapter": "law"}, "no adapter 'law'"),
        ({"start": 9, "end": 9}, "positions"),
        ({"layout": b"?"}, "no layout"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_the_reason(
    change: dict[str, Any], complaint: str
) -> None:
    stage = Stage()
    offer = KvOffer(7, 3, PROMPT, 0, 10, LAYOUT.encode(), ("zmq",))
    stage.hear(1, structs.replace(offer, **change))
    [word] = stage.says()
    assert isinstance(word, KvAbort)
    assert (word.request, word.epoch) == (7, 3)
    assert complaint in word.reason
    assert stage.outcomes() == {"refused": 1}
    assert stage.step() == []


def test_a_draining_node_finishes_what_it_has_and_takes_nothing_new() -> None:
    stage = Stage()
    stage.offer(1)
    stage.core.draining = True
    stage.offer(2)
    assert [type(each) for each in stage.says()] == [KvAccept, KvAbort]
    assert stage.core.heartbeat().state == "draining"
    assert not stage.core.idle
    stage.step()
    stage.says()
    stage.hear(1, KvTaken(1, 1))
    assert stage.core.idle


def test_nothing_is_kept_for_ever() -> None:
    stage = Stage()
    stage.offer()
    stage.step()
    stage.says()
    stage.now = stage.core.deadline()
    assert stage.now < 9.0  # everything was sent: it waits for an answer only
    assert stage.step() == []
    assert [type(each) for each in stage.says()] == [KvAbort]
    assert stage.outcomes() == {"late": 1}
    assert stage.core.pool.free == 8


def test_words_that_have_no_place_are_counted() -> None:
    stage = Stage()
    stage.hear(1, KvCredit((3,)), Submit(1, (1,), Ending(3)))
    assert stage.core.counters["messages_unexpected"] == 2


def test_layers_leave_while_further_ones_are_computed() -> None:
    stage = Stage(layers=3)
    stage.offer()
    stage.says()
    step = stage.core.plan(0.0)
    assert step is not None
    assert not stage.core.reached(1, 0.1)  # two layers make a chunk
    assert stage.core.reached(2, 0.2)
    assert stage.says() == [(0, 10)]
    stage.core.settle(step, 0.0, 0.3)
    assert stage.says() == [(0, 10)]
    assert stage.says() == []


def test_a_verifier_that_leaves_during_a_forward_leaves_nothing() -> None:
    stage = Stage(layers=3)
    stage.offer()
    stage.offer(2, link=2, prompt=range(20, 25))
    step = stage.core.plan(0.0)
    assert step is not None
    stage.core.reached(2, 0.1)
    stage.core.handle(LinkDown(1, "silence"), 0.2)
    assert stage.core.reached(3, 0.3)
    stage.core.settle(step, 0.0, 0.4)
    assert stage.says(2)[1:] == [(0, 4)]
    stage.hear(2, KvTaken(2, 2))
    assert stage.core.idle
    assert stage.core.pool.free == 8
    stage.offer(3, link=2)
    assert stage.step() == [PROMPT[:10]]  # what was not computed to its end is not known
