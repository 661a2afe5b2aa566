"""Adjustments against the processors of `transformers`, and against their definitions."""

import random
from typing import Final

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.adjust import Adjustments, adjust, dead_end, restrict

VOCABULARY: Final = 40
NEVER: Final = float("-inf")


def logits(seed: int) -> torch.Tensor:
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))


def adjusted(
    wanted: Adjustments, prompt: list[int], output: list[int], seed: int = 0
) -> torch.Tensor:
    row = logits(seed)
    adjust(row, wanted, prompt, output)
    return row


def test_nothing_wanted_changes_nothing() -> None:
    assert Adjustments().neutral
    assert torch.equal(adjusted(Adjustments(), [1, 2], [3]), logits(0))


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, VOCABULARY - 1), max_size=12),
    st.lists(st.integers(0, VOCABULARY - 1), max_size=12),
    st.floats(0.5, 2.0),
    st.integers(0, 99),
)
def test_repetition_counts_prompt_and_output_as_transformers_does(
    prompt: list[int], output: list[int], penalty: float, seed: int
) -> None:
    line = torch.tensor([prompt + output], dtype=torch.long)
    processor = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    expected = processor(line, logits(seed)[None])[0]
    torch.testing.assert_close(
        adjusted(Adjustments(repetition=penalty), prompt, output, seed), expected
    )


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=20), st.floats(-2, 2), st.floats(-2, 2))
def test_presence_and_frequency_count_the_output_only(
    output: list[int], presence: float, frequency: float
) -> None:
    expected = logits(0)
    for token in range(VOCABULARY):
        count = output.count(token)
        expected[token] -= frequency * count + presence * (count > 0)
    wanted = Adjustments(presence=presence, frequency=frequency)
    torch.testing.assert_close(adjusted(wanted, [0, 1, 2, 3], output), expected)


@pytest.mark.parametrize("seed", range(20))
def test_bad_words_as_transformers_bans_them(seed: int) -> None:
    rng = random.Random(seed)
    words = [[rng.randrange(4) for _ in range(rng.randint(1, 3))] for _ in range(3)]
    output = [rng.randrange(4) for _ in range(rng.randint(0, 6))]
    processor = transformers.NoBadWordsLogitsProcessor(words, eos_token_id=VOCABULARY - 1)
    expected = processor(torch.tensor([output], dtype=torch.long), logits(seed)[None].clone())[0]
    assert torch.equal(adjusted(Adjustments(bad_words=words), [], output, seed), expected)


def test_allowed_tokens_keep_their_logits_and_all_others_are_impossible() -> None:
    row = adjusted(Adjustments(allowed=(3, 7, 3)), [], [])
    assert [token for token, value in enumerate(row.tolist()) if value > NEVER] == [3, 7]
    assert torch.equal(row[[3, 7]], logits(0)[[3, 7]])


def test_a_bias_is_added() -> None:
    row = adjusted(Adjustments(bias={2: 5.0, 9: -100.0}), [], [])
    expected = logits(0)
    expected[2] += 5
    expected[9] -= 100
    assert torch.equal(row, expected)


def test_a_bias_does_not_bring_back_what_is_not_allowed() -> None:
    row = adjusted(Adjustments(allowed=(1,), bias={2: 100.0}), [], [])
    assert row[2] == NEVER


def mask(*tokens: int, size: int = VOCABULARY) -> bytes:
    bits = sum(1 << token for token in tokens)
    return bits.to_bytes(-(-size // 8), "little")


def test_a_mask_leaves_what_it_names_and_other_rows_as_they_are() -> None:
    rows = torch.stack([logits(seed) for seed in range(3)])
    before = rows.clone()
    restrict(rows, [mask(0, 7, 8, 39), mask(5)])
    assert dead_end(rows) is None
    assert rows[0].isfinite().nonzero().flatten().tolist() == [0, 7, 8, 39]
    assert torch.equal(rows[0, [0, 7, 8, 39]], before[0, [0, 7, 8, 39]])
    assert rows[1].isfinite().nonzero().flatten().tolist() == [5]
    assert torch.equal(rows[2], before[2])


def test_masks_may_be_wider_or_narrower_than_rows() -> None:
    rows = torch.stack([logits(seed) for seed in range(2)])
    restrict(rows[:1], [mask(3, 60, size=64)])
    restrict(rows[1:], [mask(3, size=8)])
    assert rows.isfinite().nonzero().tolist() == [[0, 3], [1, 3]]


def test_the_first_row_where_nothing_is_left_is_named() -> None:
    rows = torch.stack([logits(seed) for seed in range(4)])
    rows[2, 5] = NEVER
    restrict(rows, [mask(4), mask(4, 5), mask(5), mask()])
    assert dead_end(rows) == 2
    assert dead_end(rows[:2]) is None


@pytest.mark.parametrize("penalty", [1e-300, 1e-40, 100.0])
def test_the_strangest_penalty_leaves_numbers(penalty: float) -> None:
    row = adjusted(Adjustments(repetition=penalty), list(range(20)), [21, 22], seed=3)
    assert not row.isnan().any()
    assert row.max().isfinite()
