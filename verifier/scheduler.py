"""Continuous batching: who computes what in the next forward. Pure.

One step mixes decoding rows (the anchor and its drafts) with chunks of prompts. A row is always "the tokens of the
line that are not computed yet, then drafts", so a prompt's last chunk, a window and a plain token are one case. A
choice that lost its pages comes back through the same door: its line is computed again.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.pages import OutOfPages, PagePool
from protocol.messages import Grammar
from verifier.config import SchedulerConfig
from verifier.generation import Generation
from verifier.planner import Candidate, Planner
from verifier.step import Step, Work

FIRST_CHUNK: Final = 64
"""New tokens that the first forwards may have: nobody knows the machine yet, and a loop that computes is silent. A
forward that outlasts the patience of peers loses all links. Three quick forwards are enough to reach 512."""
AIM: Final = 0.9
"""Of the bound: forwards of the same size do not all take the same time."""
TICK: Final = 1e-6
LEAST_CHUNK: Final = 16
"""New tokens that a forward may have at least, however slow it is."""
DRAFTS_SHARE: Final = 4
"""Of what a forward may have, drafts get at least this part beside prompts: who decodes earlier makes room earlier, but
a step is used best by as many requests as there are."""


@dataclass(slots=True)
class Chunking:
    """How many tokens a forward may have so that it takes no longer than its bound: fewer when late, more when early.

    A forward has a part that does not depend on its tokens, so twice as many take less than twice as long.
    """

    config: SchedulerConfig
    tokens: int = 0

    def __post_init__(self) -> None:
        self.tokens = min(FIRST_CHUNK, self.config.max_chunk)

    def measured(self, tokens: int, seconds: float) -> None:
        """A forward of so many tokens took so long."""
        bound = self.config.forward_seconds
        if seconds > bound:
            less = round(min(self.tokens, tokens) * max(0.5, AIM * bound / seconds))
            self.tokens = max(LEAST_CHUNK, less)
        elif 2 * tokens > self.tokens and seconds < AIM * bound:
            more = round(tokens * min(2.0, AIM * bound / max(seconds, TICK)))
            self.tokens = min(max(self.tokens, more), self.config.max_chunk)


class Scheduler:
    """Waiting and running choices over one pool of pages."""

    def __init__(
        self, config: SchedulerConfig, planner: Planner, pool: PagePool, context: int
    ) -> None:
        self._config = config
        self._planner = planner
        self._context = context
        self.pool = pool
        self.chunking = Chunking(config)
        self.running: list[Generation] = []
        self.waiting: list[Generation] = []
        self.admitted: list[Generation] = []  # by the last plan, in order
        self.preempted: list[Generation] = []  # by the last plan, after that
        self.preemptions = 0
        self.drafts = 0  # that the last plan wanted

    def __len__(self) -> int:
        return len(self.running) + len(self.waiting)

    def full(self, choices: int) -> bool:
        """So many further choices may not wait."""
        return len(self) + choices > self._config.max_running + self._config.max_waiting

    def add(self, generation: Generation) -> None:
        """Let a choice wait: by priority, then by arrival."""
        self.waiting.append(generation)
        self.waiting.sort(key=lambda each: (-each.submit.priority, each.id))

    def held(self, grammar: Grammar) -> list[Generation]:
        """Choices that wait until this grammar is compiled."""
        return [each for each in self.waiting if not each.ready and each.submit.grammar == grammar]

    def remove(self, generation: Generation) -> None:
        """Free whatever the choice holds. Idempotent."""
        if generation.sequence is not None:
            self.pool.release(generation.sequence)
            generation.sequence = None
        for queue in (self.running, self.waiting):
            if generation in queue:
                queue.remove(generation)

    def plan(self, left_out: Collection[int] = ()) -> Step | None:
        """The next forward, with its pages reserved; None when there is nothing to compute.

        Choices of these numbers sit it out if they decode, unless nothing else can be computed.
        """
        self.admitted.clear()
        self.preempted.clear()
        self._admit()
        works = self._works(left_out) or (self._works(()) if left_out else {})
        rows = tuple(works[each.id] for each in self.running if each.id in works)
        return Step(rows) if rows else None

    def _works(self, left_out: Collection[int]) -> dict[int, Work]:
        decoding = [each for each in self.running if each.todo == 1 and each.id not in left_out]
        prompts = [each for each in self.running if each.todo > 1]
        least = LEAST_CHUNK if prompts else 0  # so that many decoding rows never starve a prompt
        budget = max(least, self.chunking.tokens - len(decoding))
        waiting = sum(each.todo for each in prompts)
        room = max(budget // DRAFTS_SHARE, budget - waiting)
        beside = min(waiting, budget)
        lengths = self._lengths(decoding, room, beside)
        self.drafts = sum(lengths)
        works: dict[int, Work] = {}
        for generation, length in zip(decoding, lengths, strict=True):
            self._place(works, generation, 1, length)
        budget -= sum(lengths)
        for generation in prompts:
            count = min(generation.todo, budget)
            if count <= 0:
                break
            if self._place(works, generation, count, 0):
                budget -= count
        return works

    def _lengths(self, decoding: Sequence[Generation], budget: int, beside: int) -> list[int]:
        candidates = [
            Candidate(
                available=len(each.binding.tail.ahead) if each.binding else 0,
                limit=min(each.output.room - 1, self._context - len(each.line) - 1),
                confidences=each.binding.tail.confidences if each.binding else (),
                request=each.id,
                label=each.binding.label if each.binding else "",
            )
            for each in decoding
        ]
        return self._planner.lengths(candidates, budget, beside)

    def _admit(self) -> None:
        while len(self.running) < self._config.max_running:
            generation = next((each for each in self.waiting if each.ready), None)
            if generation is None or not self._fits(generation):
                return
            shared = () if generation.scoring else generation.line
            generation.sequence = self.pool.open(shared, generation.submit.adapter)
            if not generation.output.tokens:
                generation.cached = generation.sequence.computed
            self.waiting.remove(generation)
            self.running.append(generation)
            self.admitted.append(generation)

    def _fits(self, generation: Generation) -> bool:
        """Beside what those that run still need; a choice that is alone always fits (its limits were checked)."""
        promised = sum(max(0, self._pages(each) - each.pages) for each in self.running)
        return not self.running or promised + self._pages(generation) <= self.pool.free

    def _pages(self, generation: Generation) -> int:
        """Pages for its line, the next token, and one more."""
        return len(generation.line) // self.pool.page_size + 2

    def _place(
        self, works: dict[int, Work], generation: Generation, count: int, drafts: int
    ) -> bool:
        """Reserve pages for a row: without its drafts, then at the cost of later choices, before giving it up."""
        if generation.sequence is None:
            return False  # preempted by a row before it
        start = generation.sequence.computed
        for length in dict.fromkeys((drafts, 0)):
            if self._reserve(generation, start + count + length):
                works[generation.id] = _work(generation, start, count, length)
                return True
        for victim in self._victims(generation):
            works.pop(victim.id, None)
            self._preempt(victim)
            if self._reserve(generation, start + count):
                works[generation.id] = _work(generation, start, count, 0)
                return True
        self._preempt(generation)
        return False

    def _reserve(self, generation: Generation, length: int) -> bool:
        assert generation.sequence is not None
        try:
            self.pool.reserve(generation.sequence, length)
        except OutOfPages:
            return False
        return True

    def _victims(self, generation: Generation) -> Iterable[Generation]:
        """Who may lose its pages to `generation`: those behind it in the queue, the last one first."""
        return reversed(self.running[self.running.index(generation) + 1 :])

    def _preempt(self, generation: Generation) -> None:
        self.preemptions += 1
        self.preempted.append(generation)
        self.remove(generation)
        self.waiting.insert(0, generation)


def _work(generation: Generation, start: int, count: int, drafts: int) -> Work:
    assert generation.sequence is not None
    line = generation.line
    last = start + count == len(line)
    tail = generation.binding.tail if generation.binding and last else None
    ahead = tail.ahead[: drafts + 1] if tail else []
    output = generation.output
    return Work(
        request=generation.id,
        tokens=(*line[start : start + count], *ahead[:drafts]),
        start=start,
        pages=tuple(generation.sequence.pages),
        drafts=drafts,
        draws=drafts + 1 if last else 0,
        sampling=generation.submit.sampling,
        choice=generation.choice,
        banned=output.end_tokens if len(output.tokens) + 1 < output.min_tokens else frozenset(),
        banned_draws=max(0, output.min_tokens - len(output.tokens) - 1),
        prompt=generation.submit.tokens,
        output=output.tokens,
        logprobs=generation.submit.logprobs,
        prompt_logprobs=generation.submit.prompt_logprobs if generation.scoring else None,
        matcher=output.matcher,
        further=ahead[drafts] if len(ahead) > drafts else None,
        laws=tail.laws[: drafts + 1] if tail else (),
        confidences=tail.confidences[:drafts] if tail else (),
        label=generation.binding.label if generation.binding else "",
    )
