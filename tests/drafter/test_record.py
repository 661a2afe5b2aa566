"""What a drafter counts, and what it records of requests that are traced."""

from collections.abc import Sequence
from typing import Any

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from protocol import attributes
from protocol.link import LinkDown, LinkUp, Received
from protocol.messages import AnyMessage, DraftClose, DraftSync, VerifyCommit
from protocol.spans import Context, Span, traceparent

LINK = 7
OURS = Context(0xA, 0xB)


class OneByOne:
    """A method that says its guesses one a turn, all of them 5."""

    def open(self, mirror: Mirror) -> None: ...

    def adopt(self, mirror: Mirror, kept: Kept) -> None: ...

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [Proposal((5,), (0.5,), pending=want > 1) for _, want in wants]

    def close(self, mirror: Mirror) -> None: ...


class Story:
    """A drafter on a link with a verifier; every turn takes a hundredth of a second."""

    def __init__(self, **config: Any) -> None:
        self.now = 0.0
        self.method = OneByOne()
        self.core = DrafterCore(DrafterConfig(method="suffix", **config), self.method)
        self.core.handle(LinkUp(LINK, "verifier", "verifier-0"), self.now)

    def hear(self, *messages: AnyMessage) -> None:
        self.core.handle(Received(LINK, messages), self.now)

    def sync(self, request: int = 1, *, ahead: int = 2, trace: str = traceparent(OURS)) -> None:
        self.hear(DraftSync(request, 1, (1, 2), (), ahead, trace=trace))

    def turns(self, count: int) -> None:
        for _ in range(count):
            started = self.now
            self.now = round(self.now + 0.01, 2)
            if wants := self.core.plan():
                self.core.settle(wants, self.method.propose(wants), started, self.now)

    def told(self) -> list[Span]:
        return self.core.record.spans.take()


def test_a_drafter_counts_what_it_guessed_for_whom() -> None:
    story = Story(max_requests=1)
    story.sync(1)
    story.sync(2)
    story.turns(5)
    facts = story.core.facts()
    assert facts.counters["mirrors_opened"] == {"": 1}
    assert facts.counters["guesses"] == {"": 2}
    assert facts.counters["refused"] == {"unknown": 0, "full": 1, "context": 0, "draining": 0}
    assert facts.gauges["mirrors"] == {"": 1.0}
    assert sum(facts.histograms["propose_seconds"].counts) == 2


def test_verifiers_are_told_of_it_and_tools_are_not() -> None:
    story = Story()
    story.core.handle(LinkUp(8, "tool", "corpus-1"), 0.0)
    assert story.core.verifiers == {LINK: "verifier-0"}
    story.core.handle(LinkDown(LINK, "silence"), 0.0)
    assert story.core.verifiers == {}


def test_guesses_from_one_prefix_are_one_span_however_many_turns_they_took() -> None:
    story = Story()
    story.sync(ahead=3)
    story.turns(4)
    story.hear(VerifyCommit(1, 1, 0, (5, 9), 1))
    story.turns(2)
    story.hear(DraftClose(1, 1, "length"))
    first, second, mirror = story.told()
    assert [(span.name, span.parent) for span in (first, second)] == [
        (attributes.DRAFT, attributes.MIRROR)
    ] * 2
    assert (first.start, first.end, second.start, second.end) == (0.0, 0.03, 0.04, 0.05)
    about = [
        (s.attributes[attributes.BASE], s.attributes[attributes.GUESSES]) for s in (first, second)
    ]
    assert about == [(0, 3), (2, 1)]
    assert {span.context for span in (first, second, mirror)} == {OURS}
    assert len({span.scope for span in (first, second, mirror)}) == 1


def test_a_mirror_says_in_the_end_what_became_of_it() -> None:
    story = Story()
    story.sync()
    story.turns(3)
    story.hear(VerifyCommit(1, 1, 0, (5,), 0), DraftClose(1, 1, "stop"))
    mirror = story.told()[-1]
    assert (mirror.name, mirror.key, mirror.parent, mirror.last) == (
        attributes.MIRROR,
        attributes.MIRROR,
        "",
        True,
    )
    assert (mirror.start, mirror.end) == (0.0, 0.03)
    assert mirror.attributes == {
        attributes.EPOCH: 1,
        attributes.CHOICE_INDEX: 0,
        attributes.METHOD: "suffix",
        attributes.VERIFIER: "verifier-0",
        attributes.BASE: 0,
        attributes.EMITTED: 1,
        attributes.GUESSES: 2,
        attributes.END: "stop",
    }


def test_a_link_that_is_over_ends_its_mirrors() -> None:
    story = Story()
    story.sync()
    story.core.handle(LinkDown(LINK, "silence"), 0.5)
    [mirror] = story.told()
    assert (mirror.end, mirror.attributes[attributes.END]) == (0.5, "silence")


def test_of_what_is_not_traced_nothing_is_recorded() -> None:
    story = Story()
    story.sync(1, trace="")
    story.sync(2, trace=f"00-{1:032x}-{1:016x}-00")
    story.turns(3)
    story.hear(DraftClose(1, 1), DraftClose(2, 1))
    assert story.told() == []
    assert story.core.record._stories == {}
