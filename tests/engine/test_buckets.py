"""Sizes that forwards are padded to."""

import pytest

from engine.buckets import buckets


def test_small_steps_have_a_bucket_each_and_large_ones_share() -> None:
    assert buckets(40).sizes == (1, 2, 3, 4, 8, 16, 24, 32, 40)
    assert buckets(1).sizes == (1,)
    assert buckets(5).sizes == (1, 2, 3, 4, 5)
    assert buckets(576).sizes[-4:] == (448, 480, 512, 576)


@pytest.mark.parametrize("most", [1, 7, 64, 100, 576, 2304])
def test_every_size_has_the_least_bucket_that_holds_it(most: int) -> None:
    made = buckets(most)
    assert made.largest == most
    assert list(made.sizes) == sorted(set(made.sizes))
    for tokens in range(1, most + 1):
        assert made.of(tokens) == min(size for size in made.sizes if size >= tokens)
    assert made.of(most + 1) is None


def test_little_is_wasted() -> None:
    made = buckets(2304)
    for tokens in range(33, 2305):
        assert (made.of(tokens) or 0) - tokens < max(8, tokens / 4)
