"""Suffix matching over the request's own text, past outputs and documents."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.config import DrafterConfig, SuffixConfig
from drafter.proposers import PROPOSERS, Proposal, Proposer
from drafter.proposers.suffix import SuffixProposer
from tests.drafter import naive
from tests.drafter.stories import commit, extend, guess, mirror_of, opened, remember

SECONDS = 60.0
PASSAGE = list(range(100, 300))


def suffix(**settings: float) -> SuffixProposer:
    return SuffixProposer(SuffixConfig.model_validate(settings))


def test_the_table_makes_one() -> None:
    assert isinstance(PROPOSERS["suffix"](DrafterConfig()), SuffixProposer)


def test_what_followed_the_last_tokens_before_is_proposed() -> None:
    proposer = suffix()
    mirror = opened(proposer, [1, 2, 3, 4, 5, 9, 1, 2])
    assert guess(proposer, mirror, 3) == [3, 4, 5]
    assert mirror.confidences == pytest.approx([2 / 4, 3 / 5, 4 / 6])


def test_nothing_is_proposed_where_nothing_matches() -> None:
    proposer = suffix()
    assert proposer.propose([(opened(proposer, [1, 2, 3]), 4), (opened(proposer, []), 4)]) == [
        Proposal([], []),
        Proposal([], []),
    ]


def test_a_long_copy_fills_the_want_and_goes_on_from_its_guesses() -> None:
    proposer = suffix()
    mirror = opened(proposer, [*PASSAGE, 1, 2, *PASSAGE[:40]], ahead=64)
    assert guess(proposer, mirror, 64) == PASSAGE[40:104]
    commit(proposer, mirror, PASSAGE[40:50])
    assert mirror.room == 10
    assert guess(proposer, mirror, 10) == PASSAGE[104:114]


def test_a_short_match_proposes_little() -> None:
    proposer = suffix()
    mirror = opened(proposer, [*PASSAGE, 1, 2, *PASSAGE[:2]])
    # k guesses survive a match of 2 with 6 / ((2 + k) (3 + k)): 0.022 at k = 14, 0.0196 at 15, and 0.02 is the least.
    assert guess(proposer, mirror, 64) == PASSAGE[2:16]


def test_the_most_frequent_continuation_wins_and_of_equals_the_most_recent() -> None:
    often = suffix()
    mirror = opened(often, [1, 2, 7, 1, 2, 8, 1, 2, 7, 1, 2, 9, 1, 2])
    assert guess(often, mirror, 1) == [7]
    assert mirror.confidences == [2 / (4 + 2 * 3 / 2)]
    equal = suffix()
    assert guess(equal, opened(equal, [1, 2, 7, 1, 2, 8, 1, 2]), 1) == [8]


def test_a_sure_short_match_beats_a_doubtful_long_one() -> None:
    proposer = suffix()
    mirror = opened(proposer, [5, 3, 1, 7, *[3, 1, 8] * 9, 5, 3, 1])
    assert guess(proposer, mirror, 1) == [8]


def test_committed_tokens_are_matched_and_guesses_are_not() -> None:
    proposer = suffix()
    mirror = opened(proposer, [1, 2, 3, 4], output=[1, 2])
    assert guess(proposer, mirror, 1) == [3]
    commit(proposer, mirror, [8, 6, 1, 2])
    assert guess(proposer, mirror, 1) == [8]


def test_guesses_that_were_wrong_leave_no_trace() -> None:
    proposer, fresh = suffix(), suffix()
    prompt, output = [*PASSAGE[:50], 1, 2, *PASSAGE[:9]], PASSAGE[9:12]
    mirror = opened(proposer, prompt)
    assert len(guess(proposer, mirror, 20)) == 20
    commit(proposer, mirror, [*output, 7, 7])
    untouched = opened(fresh, prompt, [*output, 7, 7])
    assert mirror.line == untouched.line
    assert proposer.propose([(mirror, 9)]) == fresh.propose([(untouched, 9)])


def test_past_outputs_are_copied_and_forgotten_oldest_first() -> None:
    proposer = suffix(store_tokens=8)
    remember(proposer, [1, 2, 3, 4])
    remember(proposer, [5, 6, 7, 8])
    assert guess(proposer, opened(proposer, [1, 2]), 9) == [3, 4]
    remember(proposer, [9, 9])
    assert guess(proposer, opened(proposer, [1, 2]), 9) == []
    assert guess(proposer, opened(proposer, [5, 6]), 9) == [7, 8]


def test_only_what_was_committed_is_remembered() -> None:
    proposer = suffix()
    mirror = opened(proposer, [1, 2, 3, 1, 2], output=[8, 1, 2])
    assert guess(proposer, mirror, 1) == [8]
    proposer.close(mirror)
    assert guess(proposer, opened(proposer, [1, 2]), 2) == []
    assert guess(proposer, opened(proposer, [8, 1]), 2) == [2]


def test_outputs_do_not_run_into_each_other() -> None:
    proposer = suffix()
    remember(proposer, [1, 2])
    remember(proposer, [3, 4])
    assert guess(proposer, opened(proposer, [1, 2]), 2) == []
    assert guess(proposer, opened(proposer, [2, 3]), 2) == []


def test_a_reset_forgets_outputs_but_no_documents_and_no_request() -> None:
    proposer = suffix()
    remember(proposer, [1, 2, 3])
    proposer.corpora.add("a", [[5, 6, 7]])
    assert proposer.corpora.wait(SECONDS)
    mirror = opened(proposer, [8, 9, 4, 8, 9])
    proposer.reset()
    assert guess(proposer, opened(proposer, [1, 2]), 1) == []
    assert guess(proposer, opened(proposer, [5, 6]), 1) == [7]
    assert guess(proposer, mirror, 1) == [4]


def test_documents_are_copied_until_they_are_removed() -> None:
    proposer = suffix()
    proposer.corpora.add("a", [PASSAGE, [1, 2, 3]])
    assert proposer.corpora.wait(SECONDS)
    assert guess(proposer, opened(proposer, [9, *PASSAGE[:40]]), 64) == PASSAGE[40:104]
    assert guess(proposer, opened(proposer, PASSAGE[-8:]), 9) == []
    proposer.corpora.remove("a")
    assert guess(proposer, opened(proposer, PASSAGE[:8]), 9) == []


def test_a_long_prompt_is_read_over_several_calls_and_holds_nobody_up() -> None:
    proposer = suffix()
    long, short = opened(proposer, [*range(9000), 5, 6]), opened(proposer, [1, 2, 3, 1, 2])
    first = proposer.propose([(long, 2), (short, 1)])
    assert [first[0], *first[1].tokens] == [Proposal(pending=True), 3]
    assert guess(proposer, long, 2) == [7, 8]


def test_a_text_that_outgrows_its_index_is_filed_again() -> None:
    proposer = suffix()
    mirror = opened(proposer, [7, 7])
    for start in range(0, 10_000, 100):
        commit(proposer, mirror, range(start, start + 100))
        guess(proposer, mirror, 1)
    commit(proposer, mirror, [500, 501])
    assert guess(proposer, mirror, 3) == [502, 503, 504]


def test_proposals_do_not_depend_on_batch_mates() -> None:
    together, alone = suffix(), suffix()
    texts = [[1, 2, 3, 1, 2], [4, 5, 6, 4, 5], [7, 8]]
    wants = [(opened(together, text), 3) for text in texts]
    assert together.propose(wants) == [
        alone.propose([(opened(alone, text), 3)])[0] for text in texts
    ]


small = st.lists(st.integers(0, 2), max_size=40)


@given(
    own=small,
    outputs=st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=4),
    corpora=st.lists(st.lists(small, max_size=2), max_size=2),
    want=st.integers(0, 20),
    config=st.builds(
        SuffixConfig,
        min_match=st.integers(1, 3),
        max_match=st.just(9),
        min_probability=st.sampled_from((0.0, 0.1, 0.4)),
        store_tokens=st.just(60),
    ),
)
def test_proposals_are_what_a_scan_of_all_texts_finds(
    own: list[int],
    outputs: list[list[int]],
    corpora: list[list[list[int]]],
    want: int,
    config: SuffixConfig,
) -> None:
    proposer = SuffixProposer(config)
    for output in outputs:
        remember(proposer, output)
    for number, documents in enumerate(corpora):
        proposer.corpora.add(str(number), documents)
    assert proposer.corpora.wait(SECONDS)
    (proposal,) = proposer.propose([(opened(proposer, own[:20], own[20:]), want)])
    tokens, confidences = naive.propose(own, outputs, corpora, want, config)
    assert list(proposal.tokens) == tokens
    assert proposal.confidences == pytest.approx(confidences)


@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5)),
)
def test_a_history_of_commits_and_guesses_is_as_good_as_a_fresh_start(
    prompt: list[int], commits: list[list[int]]
) -> None:
    proposer = suffix()
    mirror = opened(proposer, prompt)
    for tokens in commits:
        (proposal,) = proposer.propose([(mirror, mirror.room)])
        extend(mirror, proposal)
        commit(proposer, mirror, tokens)
        fresh = suffix()
        twin = mirror_of(prompt, mirror.line[: mirror.base])
        twin.extend(mirror.line[mirror.base :], mirror.confidences)
        fresh.open(twin)
        assert proposer.propose([(mirror, 8)]) == fresh.propose([(twin, 8)])


@pytest.mark.parametrize("method", ["suffix", "ngram"])
def test_a_copy_is_proposed_whole_by_every_text_method(method: str) -> None:
    proposer: Proposer = PROPOSERS[method](DrafterConfig())
    assert guess(proposer, opened(proposer, [*PASSAGE, *PASSAGE[:40]]), 64) == PASSAGE[40:104]


def test_text_methods_start_without_torch() -> None:
    modules = "drafter.proposers.suffix, drafter.proposers.ngram, drafter.core"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
