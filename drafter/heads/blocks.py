"""What DFlash and DSpark have in common as proposers: the context is written as rows come, a block is one forward.

Shapes: R mirrors, B slots of a block, J of them guesses, T = R * B, H hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from drafter.config import DrafterConfig
from drafter.guesses import Guess
from drafter.heads.block import BlockHead
from drafter.heads.loading import describe_head, load
from drafter.heads.memory import Context, Memory, Span
from drafter.heads.tails import length, renewed, text
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from engine.device import Device
from engine.pages import PagePool
from protocol.tensor import Tensor as Sent

WRITE_AT_ONCE: Final = 2048
"""Rows of context that one call writes at most: commits wait for it."""


class Choose(Protocol):
    """How guesses, J for each mirror, come of the final states of a block's guessing slots; the host waits once."""

    def __call__(
        self, head: BlockHead, x_RJH: Tensor, mirrors: Sequence[Mirror], *, samples: bool
    ) -> list[list[Guess]]: ...


@dataclass(frozen=True, slots=True)
class _Work:
    index: int
    mirror: Mirror
    context: Context
    committed: int
    guesses: int


class BlockProposer:
    """A Proposer that takes hidden states: one block for every commit, anchored at the newest token."""

    def __init__(
        self,
        head: BlockHead,
        memory: Memory,
        needs: tuple[str, ...],
        choose: Choose,
        *,
        samples: bool = False,
    ) -> None:
        self.needs = needs
        self.context = memory.context - head.head.block
        self._head = head
        self._memory = memory
        self._choose = choose
        self._samples = samples
        self._drawn: dict[Mirror, int] = {}  # the committed length that a mirror's block was for

    def open(self, mirror: Mirror) -> None:
        self._memory.open(mirror, text(mirror), mirror.adapter)
        self._drawn[mirror] = -1

    def close(self, mirror: Mirror) -> None:
        self._memory.close(mirror)
        self._drawn.pop(mirror, None)

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        """Nothing of a block stays in the pages."""

    def hidden(self, mirror: Mirror, start: int, rows: Sent) -> None:
        self._memory.receive(mirror, start, rows)

    @property
    def pool(self) -> PagePool:
        """See `drafter.capabilities.HoldsPages`."""
        return self._memory.pool

    def reset(self) -> None:
        """Forget the KV of requests that are over."""
        self._memory.reset()

    @torch.inference_mode()
    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        """A whole block, or nothing; `pending` where rows are left to write."""
        wrote = self._write([mirror for mirror, _ in wants])
        works = [
            work
            for index, (mirror, want) in enumerate(wants)
            if (work := self._work(index, mirror, want))
        ]
        drawn = {work.index for work in works}
        proposals = [
            Proposal(pending=wrote and index not in drawn and self._unwritten(mirror) > 0)
            for index, (mirror, _) in enumerate(wants)
        ]
        if works:
            for work, guesses in zip(works, self._guess(works), strict=True):
                self._drawn[work.mirror] = work.committed
                proposals[work.index] = renewed(work.mirror, guesses[: work.guesses])
        return proposals

    def _unwritten(self, mirror: Mirror) -> int:
        context = self._memory.contexts[mirror]
        return min(context.end, length(mirror) - 1) - context.true

    def _write(self, mirrors: Sequence[Mirror]) -> bool:
        """Put rows that came into the pages; whether there were any."""
        room = WRITE_AT_ONCE
        spans: list[Span] = []
        pieces: list[Tensor] = []
        for mirror in mirrors:
            context = self._memory.contexts[mirror]
            count = min(self._unwritten(mirror), room)
            if count <= 0 or context.true + count > self._memory.context:
                continue
            if self._memory.reserve(context, context.true + count):
                spans.append(Span(context, [0] * count, context.true))
                pieces += context.first(count)
                room -= count
        if not spans:
            return False
        _, place = self._memory.place(spans)
        self._head.write(torch.cat(pieces), place, self._memory.kv)
        for span in spans:
            span.context.used(len(span.tokens))
        for mirror in mirrors:
            context = self._memory.contexts[mirror]
            context.sequence.computed = context.true - context.origin
            self._memory.publish(mirror, 0)
        return True

    def _work(self, index: int, mirror: Mirror, want: int) -> _Work | None:
        context, head = self._memory.contexts[mirror], self._head.head
        committed = length(mirror)
        guesses = min(len(mirror.line) - mirror.base + want, head.longest)
        ready = context.true == committed - 1 and self._drawn[mirror] != committed
        if not ready or committed - 1 + head.block > self._memory.context:
            return None
        if text(mirror, committed - 1)[0] >= head.target.vocab:
            return None
        if not self._memory.reserve(context, committed - 1 + head.block):
            return None
        return _Work(index, mirror, context, committed, guesses)

    def _guess(self, works: Sequence[_Work]) -> list[list[Guess]]:
        head = self._head.head
        masks = [head.mask_token] * (head.block - 1)
        spans = [
            Span(
                work.context, [text(work.mirror, work.committed - 1)[0], *masks], work.committed - 1
            )
            for work in works
        ]
        ids_T, place = self._memory.place(spans, causal=head.causal)
        x_TH = self._head.forward(ids_T, place, self._memory.kv)
        first = 0 if head.from_anchor else 1
        longest = max(work.guesses for work in works)
        x_RBH = x_TH.view(len(works), head.block, -1)
        return self._choose(
            self._head,
            x_RBH[:, first : first + longest],
            [work.mirror for work in works],
            samples=self._samples,
        )


def make_block(
    config: DrafterConfig, choose: Choose, device: Device | None = None
) -> BlockProposer:
    """The head in the folder `model`, for the target in the folder `target`; a ValueError says what is wrong.

    `device` is the configured one, if nobody says.
    """
    head, shared = describe_head(config)
    loaded = load(config, head, device)
    with loaded.weights() as opened:
        block = BlockHead(opened, shared, projected=loaded.projected)
    return BlockProposer(block, loaded.memory, loaded.needs, choose, samples=config.samples)
