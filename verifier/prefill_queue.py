"""Prompts that a prefill node computes, in the order in which they came, and the pages they are in. Pure.

One that finds no pages waits, and those behind it too. What is computed may leave at once: layers of a forward while it
computes further ones, and a chunk while it computes the next.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.pages import OutOfPages, PagedSequence, PagePool
from kvtransfer.giving import Giving, Job
from protocol.facts import SIZES, Distribution
from protocol.messages import Sampling
from verifier.config import SchedulerConfig
from verifier.scheduler import Chunking
from verifier.step import Step, Work


@dataclass(slots=True, eq=False)
class Prompt:
    """A job with its place in steps. `sequence` is None until it has pages."""

    number: int
    job: Job
    sequence: PagedSequence | None = None

    @property
    def todo(self) -> int:
        """Tokens that are not computed."""
        return self.job.offer.end - (self.sequence.computed if self.sequence else 0)


class PrefillQueue:
    """All prompts of a prefill node, by (link, its request). `giving` hears what is computed."""

    def __init__(self, config: SchedulerConfig, giving: Giving, pool: PagePool) -> None:
        self.counters: Counter[str] = Counter()
        self.pool = pool
        self.prompts: dict[tuple[int, int], Prompt] = {}
        self.step_seconds = Distribution()
        self.step_tokens = Distribution(SIZES)
        self._giving = giving
        self._chunking = Chunking(config)
        self._last = 0

    @property
    def tokens(self) -> int:
        """That wait."""
        return sum(prompt.todo for prompt in self.prompts.values())

    def add(self, job: Job) -> None:
        """It waits behind all others."""
        self._last += 1
        self.prompts[job.link, job.offer.request] = Prompt(self._last, job)

    def remove(self, job: Job) -> None:
        """Its pages are free, even while a forward writes to them: no page is given away before that is over.

        Those that are shareable stay as long as nobody needs them.
        """
        prompt = self.prompts.pop((job.link, job.offer.request))
        if prompt.sequence is not None:
            self.pool.release(prompt.sequence)

    def held(self, job: Job) -> Sequence[int]:
        """The pages of a job that has some."""
        sequence = self.prompts[job.link, job.offer.request].sequence
        assert sequence is not None
        return sequence.pages

    # --- a forward ----------------------------------------------------------------------------------

    def plan(self) -> Step | None:
        """What the next forward computes; None when there is nothing."""
        budget = self._chunking.tokens
        rows = []
        for prompt in self.prompts.values():
            if budget <= 0 or not self._opened(prompt):
                break
            if count := min(prompt.todo, budget):
                rows.append(_work(prompt, count))
                self._giving.computing(prompt.job, rows[-1].start + count)
                budget -= count
        return Step(tuple(rows)) if rows else None

    def _opened(self, prompt: Prompt) -> bool:
        """Whether it has its pages: all of them at once, so that no two prompts wait for each other's."""
        if prompt.sequence is not None:
            return True
        offer = prompt.job.offer
        sequence = self.pool.open(offer.tokens[: offer.end + 1], offer.adapter)
        try:
            self.pool.reserve(sequence, offer.end)
        except OutOfPages:
            self.pool.release(sequence)
            return False
        prompt.sequence = sequence
        self.counters["prefix_hits"] += sequence.computed
        self._giving.computed(prompt.job, sequence.computed)
        return True

    def reached(self, layers: int) -> None:
        """The forward that runs has written so many layers."""
        for prompt in self.prompts.values():
            self._giving.reached(prompt.job, layers)

    def settle(self, step: Step, started: float, now: float) -> list[tuple[Job, int]]:
        """The forward of this step is done; whose prompts were in it, with how many tokens."""
        self._chunking.measured(step.tokens, now - started)
        self.step_seconds.observe(now - started)
        self.step_tokens.observe(step.tokens)
        self.counters["steps"] += 1
        self.counters["computed_tokens"] += step.tokens
        rows, took_part = {work.request: work for work in step.rows}, []
        for prompt in self.prompts.values():
            work = rows.get(prompt.number)
            if work is None or prompt.sequence is None:
                continue
            prompt.sequence.computed = work.start + len(work.tokens)
            self.pool.publish(prompt.sequence, prompt.job.offer.tokens)
            self._giving.computed(prompt.job, prompt.sequence.computed)
            took_part.append((prompt.job, len(work.tokens)))
        return took_part


def _work(prompt: Prompt, count: int) -> Work:
    """A chunk of a prompt that goes on: nothing is drawn from it."""
    sequence = prompt.sequence
    assert sequence is not None
    start = sequence.computed
    tokens = prompt.job.offer.tokens
    return Work(
        request=prompt.number,
        tokens=tuple(tokens[start : start + count]),
        start=start,
        pages=tuple(sequence.pages),
        drafts=0,
        draws=0,
        sampling=Sampling(),
        choice=0,
        prompt=tokens,
    )
