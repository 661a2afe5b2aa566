"""What links are still to be told. Computed from state when it can be said, never queued as frames. Pure."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from protocol.messages import (
    AnyMessage,
    Done,
    DraftSync,
    DraftTailStream,
    Emit,
    Sampling,
    Submit,
    VerifyCommit,
)

BATCH_TOKENS: Final = 100_000
"""Tokens, or other numbers, that one frame may hold: more of a long backlog is said in the next one."""
SLICED: Final = BATCH_TOKENS // 100
"""What a row with slices counts for: each has two tensors, and a frame's are capped (`link.tensors`)."""

Subject = TypeVar("Subject")


class Outbox(Generic[Subject]):
    """Notes are messages that stand alone; subjects are things with news, asked for their words when these are taken.

    Notes come first: what closes something is said before what opens it anew.
    """

    def __init__(self) -> None:
        self._notes: defaultdict[int, list[AnyMessage]] = defaultdict(list)
        self._news: defaultdict[int, OrderedDict[int, Subject]] = defaultdict(OrderedDict)

    def note(self, link: int, *messages: AnyMessage) -> None:
        self._notes[link] += messages

    def news(self, link: int, key: int, subject: Subject) -> None:
        """`subject` has something to say to this link."""
        self._news[link][key] = subject

    def forget(self, link: int, key: int) -> None:
        """The subject has nothing to say any more."""
        if link in self._news:
            self._news[link].pop(key, None)

    def drop(self, link: int) -> None:
        """The link is over."""
        self._notes.pop(link, None)
        self._news.pop(link, None)

    @property
    def links(self) -> list[int]:
        """Who is to be told something."""
        noted = [link for link, notes in self._notes.items() if notes]
        return noted + [
            link for link, news in self._news.items() if news and not self._notes.get(link)
        ]

    def take(self, link: int, tell: Callable[[Subject], Iterable[AnyMessage]]) -> list[AnyMessage]:
        """What fits into the next frame, in order; the caller says it, or the link ends."""
        messages: list[AnyMessage] = []
        waiting = iter(self._notes.pop(link, ()))
        news = self._news.get(link)
        weight = 0
        while True:
            for message in waiting:
                messages.append(message)
                weight += _WEIGHTS.get(type(message), _one)(message)
                if weight >= BATCH_TOKENS:
                    if rest := list(waiting):  # first in the next frame
                        self._notes[link] = rest
                    return messages
            if not news:
                return messages
            waiting = iter(tell(news.popitem(last=False)[1]))


def _one(_message: AnyMessage) -> int:
    return 1


def _tokens(message: VerifyCommit) -> int:
    return len(message.tokens)


def _row(message: DraftTailStream) -> int:
    return len(message.tokens) if message.slice_ids is None else SLICED


def _emit(message: Emit) -> int:
    scored = (*message.logprobs, *message.prompt_logprobs)
    return len(message.tokens) + sum(2 + 3 * len(each.top) for each in scored)


def _sampling(sampling: Sampling) -> int:
    words = sum(map(len, sampling.bad_words))
    return 3 * len(sampling.logit_bias) + len(sampling.allowed) + words


def _grammar(message: Submit) -> int:
    return len(message.grammar.text) if message.grammar else 0


_WEIGHTS: Final[Mapping[type, Callable[[Any], int]]] = {
    DraftSync: lambda sync: len(sync.prompt) + len(sync.output) + _sampling(sync.sampling),
    VerifyCommit: _tokens,
    DraftTailStream: _row,
    Emit: _emit,
    Done: lambda done: 1 + len(done.statistics.history),
    Submit: lambda submit: len(submit.tokens) + _sampling(submit.sampling) + _grammar(submit),
}
"""About how many numbers a message holds."""
