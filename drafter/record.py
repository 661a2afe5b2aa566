"""What a drafter did: in numbers always, and in spans for requests that are traced. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from drafter.mirror import Mirror
from drafter.proposers import Proposal
from engine.pages import PagePool
from protocol import attributes
from protocol.facts import SHORT, Distribution, level, one, under
from protocol.messages import Facts
from protocol.spans import Context, Recorder, Span, Value, trace_number, traced

REFUSALS: Final = ("unknown", "full", "context", "draining")
MOST_CLOSINGS: Final = 1024
"""Closings that are kept for whoever logs them."""


class Closed(NamedTuple):
    """A mirror that is over, for the log. `number` is what its verifier calls the choice."""

    verifier: str
    number: int
    epoch: int
    reason: str
    tokens: int
    trace: str


@dataclass(slots=True)
class _Draft:
    """What is drafted from one committed prefix; a method may take several turns for it."""

    base: int
    start: float
    end: float
    guesses: int


@dataclass(slots=True)
class _Story:
    """A traced mirror."""

    context: Context
    verifier: str
    opened: float
    committed: int
    guesses: int = 0
    draft: _Draft | None = None


class Record:
    """Told by the core of everything that happens to mirrors."""

    def __init__(self, method: str) -> None:
        self.spans = Recorder()
        self.closings: deque[Closed] = deque(maxlen=MOST_CLOSINGS)
        self._method = method
        self._stories: dict[Mirror, _Story] = {}
        self._opened = 0
        self._guesses = 0
        self._seconds = Distribution(SHORT)

    def opened(self, mirror: Mirror, trace: str, verifier: str, now: float) -> None:
        self._opened += 1
        if (context := traced(trace)) is not None:
            self._stories[mirror] = _Story(context, verifier, now, mirror.base)

    def proposed(self, proposals: Sequence[Proposal], started: float, ended: float) -> None:
        """The method was asked once, for all mirrors that wanted guesses."""
        self._seconds.observe(ended - started)
        self._guesses += sum(len(each.tokens) for each in proposals)

    def drafted(self, mirror: Mirror, guesses: int, started: float, ended: float) -> None:
        """A mirror's part in that."""
        if not self._stories or (story := self._stories.get(mirror)) is None:
            return
        story.guesses += guesses
        if story.draft is not None and story.draft.base == mirror.base:
            story.draft.end = ended
            story.draft.guesses += guesses
        else:
            self._tell(mirror, story)
            story.draft = _Draft(mirror.base, started, ended, guesses)

    def closed(self, mirror: Mirror, reason: str, verifier: str, now: float) -> None:
        story = self._stories.pop(mirror, None) if self._stories else None
        trace = trace_number(story.context) if story else ""
        self.closings.append(
            Closed(verifier, mirror.request, mirror.epoch, reason, mirror.base, trace)
        )
        if story is None:
            return
        self._tell(mirror, story)
        about: dict[str, Value] = {
            attributes.EPOCH: mirror.epoch,
            attributes.CHOICE_INDEX: mirror.choice,
            attributes.METHOD: self._method,
            attributes.VERIFIER: story.verifier,
            attributes.BASE: story.committed,
            attributes.EMITTED: mirror.base - story.committed,
            attributes.GUESSES: story.guesses,
            attributes.END: reason,
        }
        self.spans.add(
            Span(
                context=story.context,
                scope=_scope(mirror),
                name=attributes.MIRROR,
                start=story.opened,
                end=now,
                attributes=about,
                key=attributes.MIRROR,
                last=True,
            )
        )

    def _tell(self, mirror: Mirror, story: _Story) -> None:
        draft = story.draft
        if draft is None:
            return
        self.spans.add(
            Span(
                context=story.context,
                scope=_scope(mirror),
                name=attributes.DRAFT,
                start=draft.start,
                end=draft.end,
                attributes={
                    attributes.BASE: draft.base,
                    attributes.EPOCH: mirror.epoch,
                    attributes.GUESSES: draft.guesses,
                },
                parent=attributes.MIRROR,
            )
        )

    def facts(self, mirrors: int, counters: dict[str, int], pool: PagePool | None = None) -> Facts:
        pages = {} if pool is None else {"pages": level(pool.pages), "pages_free": level(pool.free)}
        return Facts(
            counters={
                "mirrors_opened": one(self._opened),
                "guesses": one(self._guesses),
                "refused": under("refused_", counters, REFUSALS),
                "messages_unexpected": one(counters.get("messages_unexpected", 0)),
            },
            gauges={"mirrors": level(mirrors), **pages},
            histograms={"propose_seconds": self._seconds.histogram()},
        )


def _scope(mirror: Mirror) -> tuple[int, int, int]:
    return (mirror.link, mirror.request, mirror.epoch)
