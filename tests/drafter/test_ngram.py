"""Prompt lookup in the request's own text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.config import DrafterConfig, NgramConfig
from drafter.proposers import PROPOSERS, Proposal
from drafter.proposers.ngram import NgramProposer
from tests.drafter.stories import commit, guess, opened


def ngram(least: int = 2, most: int = 5) -> NgramProposer:
    return NgramProposer(NgramConfig(min_match=least, max_match=most))


def scan(own: list[int], want: int, least: int, most: int) -> list[int]:
    for length in range(most, least - 1, -1):
        for end in range(length, len(own)):
            if own[end - length : end] == own[-length:]:
                return own[end : end + want]
    return []


def test_the_table_makes_one() -> None:
    assert isinstance(PROPOSERS["ngram"](DrafterConfig()), NgramProposer)


def test_the_earliest_place_of_the_longest_match_goes_on() -> None:
    proposer = ngram()
    mirror = opened(proposer, [1, 2, 7, 0, 1, 2, 8, 1, 2])
    assert guess(proposer, mirror, 2) == [7, 0]
    assert mirror.confidences == pytest.approx([2 / 4, 3 / 5])
    longer = opened(proposer, [1, 2, 7, 0, 1, 2, 8, 0, 1, 2])
    assert guess(proposer, longer, 2) == [8, 0]


def test_a_match_that_is_too_short_says_nothing() -> None:
    proposer = ngram(least=3)
    assert guess(proposer, opened(proposer, [1, 2, 3, 1, 2]), 4) == []


def test_commits_are_filed_and_wrong_guesses_forgotten() -> None:
    proposer = ngram()
    mirror = opened(proposer, [1, 2, 3, 1, 2])
    assert guess(proposer, mirror, 3) == [3, 1, 2]
    commit(proposer, mirror, [4, 5, 9, 4, 5])
    assert guess(proposer, mirror, 2) == [9, 4]


def test_a_long_prompt_is_read_over_several_calls() -> None:
    proposer = ngram()
    mirror = opened(proposer, [*range(9000), 5, 6])
    assert proposer.propose([(mirror, 2)]) == [Proposal(pending=True)]
    assert guess(proposer, mirror, 2) == [7, 8]


@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.integers(0, 30),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_proposals_are_what_a_scan_finds(
    own: list[int], prompt: int, least: int, more: int
) -> None:
    proposer = ngram(least, least + more)
    mirror = opened(proposer, own[:prompt])
    proposer.propose([(mirror, 4)])
    for token in own[prompt:]:
        commit(proposer, mirror, [token])
    assert guess(proposer, mirror, 6) == scan(own, 6, least, least + more)
