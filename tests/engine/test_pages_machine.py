"""The page pool under any history: a simulated memory holds, for each position, the whole prefix.

If the pool ever shared a wrong page, or let one be written that another sequence reads, a sequence
would find the prefix of another text in its own positions.
"""

from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.pages import OutOfPages, PagedSequence, PagePool

PAGES: Final = 8
SIZE: Final = 2
Prefix = tuple[str, tuple[int, ...]]

tokens = st.lists(st.integers(0, 1), min_size=1, max_size=14)  # two letters, so that texts agree
index = st.integers(0, 1000)


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(PAGES, SIZE)
        self.open: list[tuple[PagedSequence, list[int]]] = []
        self.memory: dict[int, Prefix] = {}
        self.seen: list[list[int]] = [[0]]  # published texts, to be asked for again

    def pick(self, number: int) -> tuple[PagedSequence, list[int]]:
        return self.open[number % len(self.open)]

    @rule(text=tokens, label=st.sampled_from(["", "adapter"]))
    def opens(self, text: list[int], label: str) -> None:
        sequence = self.pool.open(text, label)
        assert sequence.computed <= len(text) - 1
        assert sequence.computed == len(sequence.pages) * SIZE
        self.open.append((sequence, text[: sequence.computed]))

    @rule(number=index, more=tokens)
    def opens_what_was_seen(self, number: int, more: list[int]) -> None:
        self.opens(self.seen[number % len(self.seen)] + more, "")

    @precondition(lambda self: self.open)
    @rule(number=index, more=tokens)
    def computes(self, number: int, more: list[int]) -> None:
        sequence, text = self.pick(number)
        before, free = list(sequence.pages), self.pool.free
        try:
            self.pool.reserve(sequence, len(text) + len(more))
        except OutOfPages:
            assert (sequence.pages, self.pool.free) == (before, free)
            assert -(-(len(text) + len(more)) // SIZE) - len(before) > free
            return
        for token in more:
            page, offset = divmod(len(text), SIZE)
            text.append(token)
            self.memory[sequence.pages[page] * SIZE + offset] = (sequence.label, tuple(text))
        sequence.computed = len(text)

    @precondition(lambda self: self.open)
    @rule(number=index, kept=st.integers(0, 14))
    def takes_back(self, number: int, kept: int) -> None:
        sequence, text = self.pick(number)
        self.pool.truncate(sequence, kept)
        assert min(kept, len(text)) - SIZE < sequence.computed <= min(kept, len(text))
        assert len(sequence.pages) <= -(-kept // SIZE)
        del text[sequence.computed :]

    @precondition(lambda self: self.open)
    @rule(number=index, final=st.integers(0, 14))
    def publishes(self, number: int, final: int) -> None:
        sequence, text = self.pick(number)
        self.pool.publish(sequence, text[:final])
        self.seen.append(text[:final])

    @precondition(lambda self: self.open)
    @rule(number=index)
    def releases(self, number: int) -> None:
        sequence, text = self.pick(number)
        self.pool.release(sequence)
        self.pool.release(sequence)
        assert (sequence.pages, sequence.computed) == ([], 0)
        self.open.remove((sequence, text))

    @rule()
    def clears(self) -> None:
        self.pool.clear_cache()

    @invariant()
    def every_sequence_finds_its_own_text(self) -> None:
        for sequence, text in self.open:
            assert len(sequence.pages) * SIZE >= sequence.computed == len(text)
            for position in range(sequence.computed):
                slot = sequence.pages[position // SIZE] * SIZE + position % SIZE
                assert self.memory[slot] == (sequence.label, tuple(text[: position + 1]))

    @invariant()
    def no_page_is_lost(self) -> None:
        held = [set(sequence.pages) for sequence, _ in self.open]
        assert all(len(sequence.pages) == len(set(sequence.pages)) for sequence, _ in self.open)
        assert self.pool.free + len(set().union(*held)) == PAGES

    @invariant()
    def a_page_that_may_be_written_is_in_one_sequence(self) -> None:
        for sequence, _ in self.open:
            for page in sequence.pages[sequence.computed // SIZE :]:
                assert sum(page in other.pages for other, _ in self.open) == 1

    def teardown(self) -> None:
        for sequence, _ in self.open:
            self.pool.release(sequence)
        assert self.pool.free == PAGES


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=150, stateful_step_count=40)


class LongHistory(History):
    """The same, for longer; a machine's test case is one object, so it takes a second machine."""


TestLongHistory = pytest.mark.full(LongHistory.TestCase)
TestLongHistory.settings = settings(max_examples=3000, stateful_step_count=80)
