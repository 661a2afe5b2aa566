"""The page pool, by example."""

import pytest

from engine.pages import OutOfPages, PagedSequence, PagePool

TEXT = list(range(100, 120))


def computed(pool: PagePool, tokens: list[int], label: str = "") -> PagedSequence:
    """A sequence whose KV is computed and published for all of its tokens."""
    sequence = pool.open(tokens, label)
    pool.reserve(sequence, len(tokens))
    sequence.computed = len(tokens)
    pool.publish(sequence, tokens)
    return sequence


def test_a_lone_sequence_gets_contiguous_pages() -> None:
    pool = PagePool(6, 4)
    sequence = pool.open(TEXT)
    pool.reserve(sequence, 9)
    pool.reserve(sequence, 13)
    assert (sequence.pages, sequence.computed, pool.free) == ([0, 1, 2, 3], 0, 2)


def test_running_out_changes_nothing() -> None:
    pool = PagePool(3, 4)
    sequence = pool.open(TEXT)
    pool.reserve(sequence, 5)
    with pytest.raises(OutOfPages, match="2 pages are needed for 16 positions, 1 free"):
        pool.reserve(sequence, 16)
    assert (sequence.pages, pool.free) == ([0, 1], 1)


def test_full_pages_are_shared_but_never_the_last_token() -> None:
    pool = PagePool(9, 4)
    computed(pool, TEXT[:12])
    assert pool.open(TEXT[:12]).pages == [0, 1]
    assert pool.open(TEXT[:13]).pages == [0, 1, 2]
    assert pool.open([*TEXT[:7], 0, *TEXT[8:]]).computed == 4
    assert pool.open(TEXT[1:]).pages == []


def test_labels_share_nothing() -> None:
    pool = PagePool(9, 4)
    computed(pool, TEXT[:9], label="adapter")
    assert pool.open(TEXT).pages == []
    assert pool.open(TEXT, "adapter").pages == [0, 1]


def test_only_computed_and_final_tokens_are_published() -> None:
    pool = PagePool(9, 4)
    sequence = pool.open(TEXT)
    pool.reserve(sequence, 12)
    sequence.computed = 11
    pool.publish(sequence, TEXT[:7])
    assert pool.open(TEXT).pages == [0]
    pool.publish(sequence, TEXT)
    assert pool.open(TEXT).pages == [0, 1]


def test_pages_behind_a_truncation_go_back() -> None:
    pool = PagePool(5, 4)
    sequence = pool.open(TEXT)
    pool.reserve(sequence, 20)
    sequence.computed = 18
    pool.truncate(sequence, 9)
    assert (sequence.pages, sequence.computed, pool.free) == ([0, 1, 2], 9, 2)
    pool.truncate(sequence, 8)
    assert (sequence.pages, sequence.computed, pool.free) == ([0, 1], 8, 3)


def test_truncation_beyond_what_is_computed_only_gives_pages_back() -> None:
    pool = PagePool(5, 4)
    sequence = pool.open(TEXT)
    pool.reserve(sequence, 20)
    sequence.computed = 6
    pool.truncate(sequence, 10)
    assert (sequence.pages, sequence.computed, pool.free) == ([0, 1, 2], 6, 2)


def test_a_page_that_others_share_is_left_to_them() -> None:
    pool = PagePool(5, 4)
    first, second = computed(pool, TEXT[:9]), pool.open(TEXT[:9])
    pool.truncate(second, 6)
    assert (second.pages, second.computed) == ([0], 4)
    assert first.pages == [0, 1, 2]


def test_a_page_to_be_written_again_is_shareable_no_more() -> None:
    pool = PagePool(5, 4)
    sequence = computed(pool, TEXT[:8])
    pool.truncate(sequence, 6)
    assert (sequence.pages, sequence.computed) == ([0, 1], 6)
    assert pool.open(TEXT).pages == [0]


def test_what_follows_a_truncation_is_not_published_below_the_old_pages() -> None:
    pool = PagePool(8, 4)
    sequence = computed(pool, TEXT[:8])
    pool.truncate(sequence, 4)
    pool.reserve(sequence, 12)
    sequence.computed = 12
    pool.publish(sequence, [*TEXT[:4], *[7] * 4, *TEXT[8:12]])
    assert pool.open(TEXT).computed == 8
    assert pool.open([*TEXT[:4], *[7] * 4, *TEXT[8:]]).pages == sequence.pages


def test_the_least_recently_used_pages_are_reused_and_children_before_parents() -> None:
    pool = PagePool(4, 4)
    old = computed(pool, TEXT[:8])
    pool.release(old)
    new = computed(pool, [7] * 8)
    pool.release(new)
    pool.release(old)
    assert pool.free == 4
    taker = pool.open([])
    pool.reserve(taker, 4)
    assert taker.pages == [1]
    assert (pool.open(TEXT).pages, pool.open([7] * 9).pages) == ([0], [2, 3])


def test_using_a_prefix_keeps_it() -> None:
    pool = PagePool(4, 4)
    for tokens in (TEXT[:8], [7] * 8):
        pool.release(computed(pool, tokens))
    pool.release(pool.open(TEXT))
    taker = pool.open([])
    pool.reserve(taker, 8)
    assert sorted(taker.pages) == [2, 3]


def test_a_reopened_page_is_not_free() -> None:
    pool = PagePool(4, 4)
    pool.release(computed(pool, TEXT[:9]))
    assert pool.free == 4
    reader = pool.open(TEXT)
    assert (len(reader.pages), pool.free) == (2, 2)
    with pytest.raises(OutOfPages):
        pool.reserve(pool.open([]), 12)


def test_two_that_computed_the_same_keep_their_own_and_share_one() -> None:
    pool = PagePool(8, 4)
    first, second = pool.open(TEXT), pool.open(TEXT)
    for sequence in (first, second):
        pool.reserve(sequence, 8)
        sequence.computed = 8
        pool.publish(sequence, TEXT[:8])
    assert (first.pages, second.pages) == ([0, 1], [2, 3])
    pool.release(second)
    pool.release(first)
    assert pool.open(TEXT).pages == [0, 1]


def test_keys_below_a_kept_copy_outlive_it_no_longer_than_their_parents() -> None:
    pool = PagePool(5, 4)
    first, second = pool.open(TEXT), pool.open(TEXT)
    for sequence, length in ((first, 4), (second, 8)):
        pool.reserve(sequence, length)
        sequence.computed = length
        pool.publish(sequence, TEXT[:length])
    assert (first.pages, second.pages) == ([0], [1, 2])
    pool.release(first)
    pool.release(second)
    taker = pool.open([])
    pool.reserve(taker, 16)
    assert (taker.pages, pool.open(TEXT).pages) == ([1, 3, 4, 2], [0])


def test_clearing_forgets_what_nobody_references() -> None:
    pool = PagePool(6, 4)
    kept = computed(pool, TEXT[:8])
    pool.release(computed(pool, [7] * 8))
    pool.clear_cache()
    assert (pool.open([7] * 9).pages, pool.open(TEXT).pages) == ([], kept.pages)
    pool.release(kept)


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="0 x 16"):
        PagePool(0, 16)
