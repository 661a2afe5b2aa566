"""Documents: sorted, searched, added and removed while a drafter works."""

from array import array
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.proposers.corpus import Corpora, CorpusError
from drafter.proposers.sorted_text import Codes, SortedText, join, suffix_array
from protocol.messages import CorpusEntry
from tests.drafter.naive import common

SECONDS = 60.0
documents = st.lists(st.lists(st.integers(0, 2), max_size=15), max_size=5)


def found(corpora: Corpora, *wanted: int) -> list[int]:
    """What each corpus has to say after these tokens."""
    tail = array("i", wanted)
    matches = [(text, text.longest(tail, len(wanted))) for text in corpora.ready()]
    return [text.follow(match, 1, 0.0).tokens[0] for text, match in matches if match]


@given(st.lists(st.integers(0, 2), max_size=60), st.sampled_from((1, 2, 3, 8, 64)))
def test_suffixes_are_sorted_as_far_as_the_depth(codes: list[int], depth: int) -> None:
    order = suffix_array(np.array(codes, np.uint32), depth).tolist()
    assert sorted(order) == list(range(len(codes)))
    begins = [codes[suffix : suffix + depth] for suffix in order]
    assert begins == sorted(begins)


def test_long_repeats_are_sorted_to_the_depth() -> None:
    codes = np.tile(np.arange(1, 6, dtype=np.uint32), 200)
    order = suffix_array(codes, 256)
    begins = [codes[suffix : suffix + 256].tolist() for suffix in order.tolist()]
    assert begins == sorted(begins)


@given(documents, st.lists(st.integers(0, 2), min_size=1, max_size=10), st.integers(1, 3))
def test_the_longest_match_and_all_its_places_are_found(
    texts: list[list[int]], wanted: list[int], least: int
) -> None:
    text = SortedText(join(texts))
    ends = [common(each[:end], wanted) for each in texts for end in range(len(each) + 1)]
    longest = max(ends, default=0)
    match = text.longest(array("i", wanted), least)
    if longest < least:
        assert match is None
    else:
        assert match is not None
        places = sum(matched == longest for matched in ends)
        assert (match.length, match.high - match.low) == (longest, places)
        assert text.match(array("i", wanted), longest) == match


def test_a_border_is_neither_matched_nor_proposed() -> None:
    text = SortedText(join([[1, 2], [3, 4]]))
    assert text.longest(array("i", (2, 3)), 2) is None
    match = text.longest(array("i", (1, 2)), 2)
    assert match is not None
    assert text.follow(match, 5, 0.0).tokens == []


def test_the_highest_token_id_is_a_token_like_others() -> None:
    highest = 2**31 - 1
    text = SortedText(join([[1, highest, highest, 2]]))
    match = text.longest(array("i", (1, highest)), 1)
    assert match is not None
    assert text.follow(match, 5, 0.0).tokens == [highest, 2]


def test_a_corpus_is_searched_when_it_is_ready() -> None:
    corpora = Corpora(100)
    corpora.add("a", [[1, 2, 3], [], [4, 5]])
    assert corpora.wait(SECONDS)
    assert corpora.entries() == [CorpusEntry("a", 2, 5, ready=True)]
    assert found(corpora, 1, 2) == [3]


def test_a_corpus_grows_or_is_replaced() -> None:
    corpora = Corpora(8)
    corpora.add("a", [[1, 2, 3]])
    corpora.add("a", [[1, 5, 6]], append=True)
    assert corpora.wait(SECONDS)
    assert (found(corpora, 1, 2), found(corpora, 1, 5)) == ([3], [6])
    corpora.add("a", [[7, 8, 9, 9, 9, 9, 9]])
    assert corpora.wait(SECONDS)
    assert corpora.entries() == [CorpusEntry("a", 1, 7, ready=True)]
    assert (found(corpora, 1, 2), found(corpora, 7, 8)) == ([], [9])


def test_a_removed_corpus_is_gone_at_once() -> None:
    corpora = Corpora(100)
    corpora.add("a", [[1, 2, 3]])
    corpora.add("b", [[1, 2, 4]])
    assert corpora.wait(SECONDS)
    corpora.remove("a")
    assert (found(corpora, 1, 2), [entry.name for entry in corpora.entries()]) == ([4], ["b"])
    with pytest.raises(CorpusError, match="no corpus 'a'"):
        corpora.remove("a")


def test_too_many_tokens_are_refused_and_change_nothing() -> None:
    corpora = Corpora(5)
    corpora.add("a", [[1, 2, 3]])
    with pytest.raises(CorpusError, match="3 tokens do not fit, 3 of 5 are taken"):
        corpora.add("b", [[4, 5, 6]])
    with pytest.raises(CorpusError, match="do not fit"):
        corpora.add("a", [[4, 5, 6]], append=True)
    assert corpora.wait(SECONDS)
    assert corpora.entries() == [CorpusEntry("a", 1, 3, ready=True)]


class Slow:
    """Sorting that waits for the test."""

    def __init__(self) -> None:
        self.begun = Event()
        self.go_on = Event()

    def __call__(self, codes: Codes) -> SortedText:
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        return SortedText(codes)


def test_the_old_text_serves_until_the_new_one_is_sorted() -> None:
    slow = Slow()
    slow.go_on.set()
    corpora = Corpora(100, slow)
    corpora.add("a", [[1, 2, 3]])
    assert corpora.wait(SECONDS)
    slow.begun.clear()
    slow.go_on.clear()
    corpora.add("a", [[1, 2, 4]])
    assert slow.begun.wait(SECONDS)
    assert (found(corpora, 1, 2), corpora.entries()) == ([3], [CorpusEntry("a", 1, 3, ready=False)])
    slow.go_on.set()
    assert corpora.wait(SECONDS)
    assert found(corpora, 1, 2) == [4]


def test_what_is_removed_or_added_during_the_sorting_is_obeyed() -> None:
    slow = Slow()
    corpora = Corpora(100, slow)
    corpora.add("a", [[1, 2, 3]])
    corpora.add("b", [[5, 6, 7]])
    assert slow.begun.wait(SECONDS)
    corpora.remove("a")
    corpora.add("b", [[5, 8, 9]], append=True)
    slow.go_on.set()
    assert corpora.wait(SECONDS)
    assert (found(corpora, 1, 2), found(corpora, 5, 6), found(corpora, 5, 8)) == ([], [7], [9])


def test_a_corpus_that_does_not_fit_into_memory_is_dropped() -> None:
    def refuse(codes: Codes) -> SortedText:
        if 9 in codes:
            raise MemoryError
        return SortedText(codes)

    corpora = Corpora(100, refuse)
    corpora.add("a", [[1, 2, 8]])
    corpora.add("b", [[1, 2, 3]])
    assert corpora.wait(SECONDS)
    assert [entry.name for entry in corpora.entries()] == ["b"]
