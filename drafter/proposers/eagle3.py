"""EAGLE chains: rows of the target's states are read as they come, then each guess is made from the last.

One forward does both for all mirrors together: some read rows, others take a step on what the head made itself. Guesses
run ahead that way while the verifier works; a commit takes back what was computed on them, the same places are drawn
anew from the target's own states, and the newer tail replaces the older (`drafter.heads.tails.renewed`).

Shapes: T tokens of a forward, N mirrors that draw, H hidden.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from drafter.config import DrafterConfig
from drafter.guesses import Guess, Place
from drafter.heads.chain import ChainHead
from drafter.heads.drawn import Drawn, read
from drafter.heads.loading import describe_head, load
from drafter.heads.memory import Context, Memory, Span
from drafter.heads.tails import length, renewed, text
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from engine.device import Device
from engine.pages import PagePool
from protocol.tensor import Tensor as Sent

READ_AT_ONCE: Final = 512
"""Rows that one forward reads at most: commits wait for it."""


@dataclass(slots=True)
class _Chain:
    """What was guessed since the newest commit: `drawn` guesses, which are known when they were read.

    The next one is made from the row `out` [1, H] and the last of them, `token` [1].
    """

    guesses: list[Guess] = field(default_factory=list)
    drawn: int = 0
    out: Tensor | None = None
    token: Tensor | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """One mirror's part of a forward: reading `rows` of the target, or a step if there are none."""

    index: int  # in the wants of this call
    mirror: Mirror
    context: Context
    chain: _Chain
    span: Span
    rows: int


@dataclass(frozen=True, slots=True)
class _Draw:
    """A guess for each of these, from one forward."""

    works: Sequence[_Work]
    drawn: Drawn


class ChainProposer:
    """A Proposer that takes hidden states (`drafter.capabilities.TakesHidden`).

    With `overlap`, a call draws one token a mirror, so that commits are taken over between tokens, but `first` of them
    for a mirror that has none yet: a step of the target waits for these, and begins with what it is told first.
    Without, all that are wanted.
    """

    def __init__(
        self,
        head: ChainHead,
        memory: Memory,
        needs: tuple[str, ...],
        *,
        overlap: bool = True,
        first: int = 1,
        samples: bool = False,
    ) -> None:
        self.needs = needs
        self.context = memory.context
        self._head = head
        self._memory = memory
        self._overlap = overlap
        self._first = first
        self._samples = samples
        self._chains: dict[Mirror, _Chain] = {}

    def open(self, mirror: Mirror) -> None:
        known = text(mirror)
        label = f"{mirror.adapter}/{known[0] if known else ''}"  # row t is of token t + 1
        self._memory.open(mirror, known[1:], label)
        self._chains[mirror] = _Chain()

    def close(self, mirror: Mirror) -> None:
        self._memory.close(mirror)
        self._chains.pop(mirror, None)

    def adopt(self, mirror: Mirror, kept: Kept) -> None:  # noqa: ARG002  # nothing made of guesses is kept
        context = self._memory.contexts[mirror]
        self._memory.back(context, context.true)
        self._chains[mirror] = _Chain()

    def hidden(self, mirror: Mirror, start: int, rows: Sent) -> None:
        self._memory.receive(mirror, start, rows)

    @property
    def pool(self) -> PagePool:
        """See `drafter.capabilities.HoldsPages`."""
        return self._memory.pool

    def reset(self) -> None:
        """Forget the KV of requests that are over."""
        self._memory.reset()

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        """`pending` where rows are left to read, or tokens to draw."""
        goals = [len(mirror.line) - mirror.base + want for mirror, want in wants]
        drawn: list[_Draw] = []
        while works := self._works(wants, goals):
            drawn += self._forward(works)
            if self._overlap and not any(self._begun(work, goals[work.index]) for work in works):
                break
        self._read(drawn)
        pending = {work.index for work in self._works(wants, goals)}
        return [
            renewed(mirror, self._chains[mirror].guesses, pending=index in pending)
            for index, (mirror, _) in enumerate(wants)
        ]

    def _begun(self, work: _Work, goal: int) -> bool:
        """It has drawn something, but not what is told first."""
        return 0 < work.chain.drawn < min(self._first, goal)

    def _works(self, wants: Sequence[tuple[Mirror, int]], goals: Sequence[int]) -> list[_Work]:
        """What can be done now. Steps are short and go first into the room of a forward."""
        works: list[_Work] = []
        room = READ_AT_ONCE
        for index, (mirror, _) in enumerate(wants):
            work = self._work(index, mirror, goals[index], max(1, room))
            if work is not None:
                room -= work.rows
                works.append(work)
        return works

    def _work(self, index: int, mirror: Mirror, goal: int, room: int) -> _Work | None:
        context, chain = self._memory.contexts[mirror], self._chains[mirror]
        committed = length(mirror)
        unread = min(context.end, committed - 1) - context.true
        if unread > 0:
            rows = min(unread, room)
            start = context.true
            tokens = text(mirror, start + 1, start + 1 + rows)
            draws = start + rows == committed - 1
        elif 0 < chain.drawn < goal:
            start, rows, draws = committed - 2 + chain.drawn, 0, True
            tokens = [0]  # which is put there where it was drawn
        else:
            return None
        if start + len(tokens) > self.context or max(tokens) >= self._head.head.target.vocab:
            return None
        if not self._memory.reserve(context, start + len(tokens)):
            return None
        span = Span(context, tokens, start, draws)
        return _Work(index, mirror, context, chain, span, rows)

    @torch.inference_mode()
    def _forward(self, works: Sequence[_Work]) -> list[_Draw]:
        """Rows first, in one piece; then the steps. What is drawn, if anything is, is not known yet."""
        works = sorted(works, key=lambda work: work.rows == 0)
        ids_T, place = self._memory.place([work.span for work in works])
        own = [work.chain.token for work in works if not work.rows and work.chain.token is not None]
        if own:
            ids_T[len(ids_T) - len(own) :] = torch.cat(own)
        state_TH = torch.cat(list(self._states(works)))
        out_TH = self._head.forward(ids_T, state_TH, place, self._memory.kv)
        for work in works:
            self._computed(work)
        drawing = [work for work in works if work.span.draws]
        if not drawing:
            return []
        return [_Draw(drawing, self._draw(drawing, out_TH.index_select(0, place.wanted_N)))]

    def _states(self, works: Sequence[_Work]) -> Iterator[Tensor]:
        """What each token is read beside: the target's states, or the head's own."""
        pieces = [piece for work in works for piece in work.context.first(work.rows)]
        if pieces:
            yield self._head.states(torch.cat(pieces))
        own = [work.chain.out for work in works if not work.rows and work.chain.out is not None]
        if own:
            yield self._head.feed(torch.cat(own))

    def _computed(self, work: _Work) -> None:
        """Its KV is written; what was made of the target's rows alone may be shared."""
        context = work.context
        context.sequence.computed = work.span.start + len(work.span.tokens) - context.origin
        if work.rows:
            context.used(work.rows)
            if work.span.draws:
                self._memory.publish(work.mirror, 1)

    def _draw(self, works: Sequence[_Work], out_NH: Tensor) -> Drawn:
        places = [Place(work.mirror, length(work.mirror) + work.chain.drawn) for work in works]
        drawn = self._head.vocabulary.draw(self._head.logits(out_NH), places, samples=self._samples)
        outs, tokens = torch.split(out_NH, 1), torch.split(drawn.token_N, 1)
        for work, out_1H, token_1 in zip(works, outs, tokens, strict=True):
            work.chain.drawn += 1
            work.chain.out, work.chain.token = out_1H, token_1
        return drawn

    def _read(self, drawn: Sequence[_Draw]) -> None:
        """All guesses of a round, for which the host waits once."""
        found = read(self._memory.device, [each.drawn for each in drawn])
        for each, guesses in zip(drawn, found, strict=True):
            for work, guess in zip(each.works, guesses, strict=True):
                work.chain.guesses.append(guess)


def make(config: DrafterConfig, device: Device | None = None) -> ChainProposer:
    """The head in the folder `model`, for the target in the folder `target`; a ValueError says what is wrong.

    `device` is the configured one, if nobody says.
    """
    head, shared = describe_head(config)
    loaded = load(config, head, device)
    with loaded.weights() as opened:
        chain = ChainHead(opened, shared, projected=loaded.projected)
    return ChainProposer(
        chain,
        loaded.memory,
        loaded.needs,
        overlap=config.overlap,
        first=config.hidden.first,
        samples=config.samples,
    )
