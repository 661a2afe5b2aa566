"""Any causal language model as a drafter: its own paged KV, one forward a call for all mirrors together.

Shapes: N mirrors that draw a token, V vocabulary.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

import torch
from torch import Tensor

from drafter.config import DrafterConfig
from drafter.guesses import Place
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from drafter.proposers.guessing import guess
from drafter.proposers.reading import FIRST, paced, share
from drafter.proposers.wording import SameWording, Wording, wording_of
from engine.buckets import buckets
from engine.config import EngineConfig
from engine.memory import claim
from engine.models import lean
from engine.models.config import ModelConfig
from engine.pages import OutOfPages, PagedSequence, PagePool
from engine.runner import Engine, Forward, Row, pages_for
from engine.weights import fingerprint as weights_fingerprint
from protocol.fingerprint import tokenizer_fingerprint
from protocol.messages import Fingerprint

_PAGE: Final = 16
GRAPHED: Final = 256
"""Tokens of the largest forward that is captured on a GPU: those of so many requests that each draw one."""

log = logging.getLogger("drafter")
Forwards = Callable[[Sequence[Row]], Forward]


@dataclass(frozen=True, slots=True)
class _Work:
    """What one mirror needs before its next token can be drawn: its text from `start` to `end` read."""

    index: int  # in the wants of this call
    mirror: Mirror
    sequence: PagedSequence
    start: int
    end: int

    @property
    def unread(self) -> int:
        return self.end - self.start


class StandaloneProposer:
    """A Proposer. One call draws at most one token a mirror, so that commits are taken over between tokens.

    Keys in `_sequences` are mirrors that have pages. KV depends on the tokens alone: it stays valid as long as they
    do, whoever chose them.
    """

    def __init__(
        self,
        engine: Engine,
        context: int,
        wording: Wording | None = None,
        fingerprint: Fingerprint = Fingerprint(),
        *,
        samples: bool = False,
        forward: Forwards | None = None,
    ) -> None:
        self._engine = engine
        self._forwards = forward or engine.forward
        self._wording: Wording = wording or SameWording()
        self.context = context
        self.fingerprint = fingerprint
        self._pool = PagePool(engine.config.pages, engine.config.page_size)
        self._sequences: dict[Mirror, PagedSequence] = {}
        self._chunk = FIRST
        self._samples = samples

    @property
    def pool(self) -> PagePool:
        """Of its KV."""
        return self._pool

    def open(self, mirror: Mirror) -> None:
        """Pages are taken when guesses are wanted."""

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        if sequence := self._sequences.get(mirror):
            self._pool.truncate(sequence, self._wording.length(mirror, kept.tokens))

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        """At most one token each; `pending` where a text is not wholly read yet or more tokens are wanted."""
        proposals = [Proposal()] * len(wants)
        works = [
            work for index, (mirror, _) in enumerate(wants) if (work := self._work(index, mirror))
        ]
        for work in works:
            proposals[work.index] = Proposal(pending=True)
        shares = share([work.unread for work in works], self._chunk)
        reads = [(work, count) for work, count in zip(works, shares, strict=True) if count]
        if reads:
            drawing = [work for work, count in reads if count == work.unread]
            guesses = self._guess(drawing, self._forward(reads))
            for work, proposal in zip(drawing, guesses, strict=True):
                more = wants[work.index][1] > 1
                proposals[work.index] = replace(proposal, pending=more)
        return proposals

    def close(self, mirror: Mirror) -> None:
        self._let_go(mirror)

    def reset(self) -> None:
        """Forget the KV of requests that are over."""
        self._pool.clear_cache()

    def _work(self, index: int, mirror: Mirror) -> _Work | None:
        """Pages for all of a mirror's text; None, and no pages are held, where it cannot be served."""
        end = self._wording.length(mirror, len(mirror.line))
        if not 0 < end < self.context:
            return None
        sequence = self._sequences.get(mirror)
        if sequence is None:
            sequence = self._sequences[mirror] = self._pool.open(self._wording.read(mirror, 0, end))
        if sequence.computed >= end:  # the last token is read again: its logits are wanted
            self._pool.truncate(sequence, end - 1)
        try:
            self._pool.reserve(sequence, end)
        except OutOfPages:
            self._let_go(mirror)
            return None
        work = _Work(index, mirror, sequence, sequence.computed, end)
        if max(self._wording.read(mirror, work.start, end)) >= self._engine.model.vocab:
            self._let_go(mirror)
            return None
        return work

    def _let_go(self, mirror: Mirror) -> None:
        """Give the pages back; those of committed text can be found again while nobody needs them."""
        if sequence := self._sequences.pop(mirror, None):
            self._pool.publish(sequence, self._final(mirror))
            self._pool.release(sequence)

    def _final(self, mirror: Mirror) -> list[int]:
        """The committed text as the draft model reads it."""
        return self._wording.read(mirror, 0, self._wording.length(mirror, mirror.base))

    def _forward(self, reads: Sequence[tuple[_Work, int]]) -> Tensor:
        """Read so many tokens of each; logits [N, V] after those whose text is now wholly read."""
        rows = [
            Row(
                tokens=self._wording.read(work.mirror, work.start, work.start + count),
                start=work.start,
                pages=work.sequence.pages,
                logits=int(count == work.unread),
            )
            for work, count in reads
        ]
        began = monotonic()
        logits_NV = self._forwards(rows).logits_NV.cpu()
        self._chunk = paced(self._chunk, sum(count for _, count in reads), monotonic() - began)
        for work, count in reads:
            work.sequence.computed = work.start + count
            if (
                work.unread > 1 and count == work.unread
            ):  # other choices of this prompt need not read it
                self._pool.publish(work.sequence, self._final(work.mirror))
        return logits_NV

    def _guess(self, works: Sequence[_Work], logits_NV: Tensor) -> list[Proposal]:
        """One token each."""
        places = [
            Place(work.mirror, len(work.mirror.prompt) + len(work.mirror.line)) for work in works
        ]
        params = [self._wording.params(work.mirror) for work in works]
        sayable_NV = self._wording.sayable(logits_NV)
        return [
            Proposal(
                (self._wording.said(each.token),),
                (each.confidence,),
                laws=() if each.law is None else (each.law,),
            )
            for each in guess(sayable_NV, places, params, samples=self._samples)
        ]


def make(config: DrafterConfig) -> StandaloneProposer:
    """Load the model that the configuration names; a ValueError says why it cannot be one."""
    if config.model is None:
        raise ValueError("method standalone needs `model`: a folder")
    torch.set_num_threads(config.threads)
    model = ModelConfig.read(config.model, trust_remote_code=config.trust_remote_code)
    wording = wording_of(config, config.model, model.vocab)
    context = min(config.context or model.positions, model.positions)
    pages = pages_for(config.kv_bytes, model, _PAGE, config.dtype)
    engine = EngineConfig(
        pages=pages,
        max_context=context,
        dtype=config.dtype,
        device=config.device,
        spare=config.device != "cpu" and lean(model),
        page_size=_PAGE,
        trust_remote_code=config.trust_remote_code,
    )
    spoken = config.target or config.model
    known = (spoken / "tokenizer.json").is_file()
    fingerprint = Fingerprint(
        weights=weights_fingerprint(config.model),
        tokenizer=tokenizer_fingerprint(spoken) if known else "",
        vocabulary=model.vocab,
    )
    claim(config.device, config.gpu_share)
    loaded = Engine.load(config.model, engine)
    graphs = config.device != "cpu" and lean(model)
    forward = captured(loaded) if graphs else None
    return StandaloneProposer(
        loaded, context, wording, fingerprint, samples=config.samples, forward=forward
    )


def captured(engine: Engine) -> Forwards:
    """Forwards of a draft model on a GPU, captured by how many tokens they take: a turn is one graph."""
    from engine.graphs import CudaRecorder, GraphedEngine  # noqa: PLC0415  # triton, which CPUs do without

    made = GraphedEngine(engine, buckets(GRAPHED), GRAPHED, CudaRecorder(engine.config.device))
    made.capture(lambda done, all_: log.info("captured %d of %d graphs", done, all_))
    return made.forward
