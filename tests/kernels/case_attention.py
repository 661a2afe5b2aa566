"""What Triton's attention can beyond the contract: trees, long contexts in splits, numbers of any size, poison."""

import numpy as np
import pytest
import torch

from engine.attention import Kind
from engine.attention_triton import TritonAttention
from engine.batch import Row
from engine.errors import EngineError
from engine.ragged import SPLIT, Room, deal, splits_of
from tests.contracts.attention import PAGE, config, dealt, expected, model


def made(heads: int, kv_heads: int, size: int, pages: int, page: int = PAGE) -> TritonAttention:
    return TritonAttention(model(heads, kv_heads, size), config("triton", pages, page=page))


def close(ours: torch.Tensor, exact: torch.Tensor, rough: float = 2e-5) -> None:
    torch.testing.assert_close(ours.double(), exact, atol=rough, rtol=rough)


def poisoned(
    rows: list[Row], pages: int, kv_heads: int, size: int, page: int = PAGE
) -> torch.Tensor:
    """KV that is not a number wherever no row has a position."""
    kv = torch.full((pages, page, 2, kv_heads, size), torch.nan)
    for row in rows:
        for place in range(row.end):
            kv[row.pages[place // page], place % page] = torch.randn(2, kv_heads, size)
    return kv


def test_what_lies_outside_of_rows_is_never_read() -> None:
    torch.manual_seed(0)
    rows, pages = dealt([(3, 6), (1, 1), (6, 0), (1, 21)])
    kv, q = poisoned(rows, pages, 2, 16), torch.randn(11, 4, 16)
    for kind in (Kind(), Kind(window=4)):
        close(made(4, 2, 16, pages).prepare(rows)(q, kv, kind), expected(q, kv, rows, kind))


def test_a_tree_sees_its_ancestors() -> None:
    torch.manual_seed(1)
    rows, pages = dealt([(6, 9), (1, 5), (3, 0)])
    #     0 - 1 - 3       each token sees itself, its parent, and so on: one bit for each
    #      \\- 2 - 4 - 5
    tree = [0b1, 0b11, 0b101, 0b1011, 0b10101, 0b110101]
    rows[0] = Row(rows[0].tokens, 9, rows[0].pages, 0, tree)
    assert list(rows[0].positions) == [9, 10, 10, 11, 11, 12]
    kv, q = poisoned(rows, pages, 2, 16), torch.randn(10, 4, 16)
    for kind in (Kind(), Kind(window=6)):
        close(made(4, 2, 16, pages).prepare(rows)(q, kv, kind), expected(q, kv, rows, kind))
    with pytest.raises(EngineError, match="a tree of depth 4 does not fit a window of 3"):
        made(4, 2, 16, pages).prepare(rows)(q, kv, Kind(window=3))
    with pytest.raises(EngineError, match="a row that is not causal is no tree"):
        made(4, 2, 16, pages).prepare(rows, causal=False)


@pytest.mark.parametrize("end", [SPLIT, SPLIT + 1, 2 * SPLIT, 2 * SPLIT + 40])
def test_long_contexts_are_taken_in_splits(end: int) -> None:
    torch.manual_seed(2)
    page = 64
    rows, pages = dealt([(4, end - 4), (1, 30), (1, SPLIT), (70, SPLIT + 9)], page)
    kv = poisoned(rows, pages, 1, 16, page)
    q = torch.randn(76, 2, 16)
    sinks = torch.tensor([0.3, -0.2])
    kinds = [Kind()] if end != 2 * SPLIT + 40 else [Kind(), Kind(window=600), Kind(sinks_A=sinks)]
    for kind in kinds:
        close(made(2, 1, 16, pages, page).prepare(rows)(q, kv, kind), expected(q, kv, rows, kind))


def test_a_token_has_the_same_bits_whoever_is_beside_it() -> None:
    """In a window, behind a long chunk of another row, and alone: splits begin where they begin."""
    torch.manual_seed(3)
    page = 64
    rows, pages = dealt([(3, SPLIT + 100), (1, 2000)], page)
    kv, q = torch.randn(pages, page, 2, 1, 16), torch.randn(4, 1, 16)
    attention = made(1, 1, 16, pages, page)
    together = attention.prepare(rows)(q, kv)
    for index in range(3):
        alone = Row([1], rows[0].start + index, rows[0].pages, 0)
        assert torch.equal(attention.prepare([alone])(q[index : index + 1], kv)[0], together[index])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_as_long_numbers(dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    rows, pages = dealt([(5, 11), (1, 40)])
    kv, q = torch.randn(pages, PAGE, 2, 2, 64).to(dtype), torch.randn(6, 8, 64).to(dtype)
    ours = made(8, 2, 64, pages).prepare(rows)(q, kv)
    assert ours.dtype == dtype
    close(ours, expected(q, kv, rows), 2e-2 if dtype == torch.bfloat16 else 2e-3)


def test_rows_may_change_under_what_was_prepared() -> None:
    """A captured graph has one attention for all rows of its bucket: it reads them when it runs, and skips padding."""
    torch.manual_seed(5)
    attention = made(4, 2, 16, 64)
    shape = attention.shape(8)
    room = Room(tokens=8, tiles=8, rows=8, pages=16, parts=8, tile=shape.tile)
    numbers = torch.zeros(room.size, dtype=torch.int32)
    attend = attention.over(shape, room, splits_of(64), numbers)
    for counts in ([(3, 6), (1, 0)], [(1, 1)] * 7, [(8, 20)]):
        rows, pages = dealt(counts)
        kv, q = poisoned(rows, 64, 2, 16), torch.randn(8, 4, 16)
        assert pages <= 64
        deal(rows, room, PAGE, into=numbers.numpy())
        tokens = sum(new for new, _ in counts)
        close(attend(q, kv)[:tokens], expected(q[:tokens], kv, rows))


def test_random_rows() -> None:
    at_random(6)


def at_random(count: int) -> None:
    source = np.random.default_rng(6)
    for seed in range(count):
        torch.manual_seed(seed)
        counts = [
            (int(source.integers(1, 20)), int(source.integers(0, 40)))
            for _ in range(source.integers(1, 6))
        ]
        kv_heads, fold, size = (int(source.choice(each)) for each in ([1, 2], [1, 3], [16, 24]))
        rows, pages = dealt(counts, seed=seed)
        kv = poisoned(rows, pages, kv_heads, size)
        q = torch.randn(sum(new for new, _ in counts), kv_heads * fold, size)
        window = Kind(window=int(source.integers(1, 30))) if seed % 2 else Kind()
        ours = made(kv_heads * fold, kv_heads, size, pages).prepare(rows)(q, kv, window)
        close(ours, expected(q, kv, rows, window))


@pytest.mark.full
def test_more_random_rows() -> None:
    at_random(60)


@pytest.mark.parametrize("size", [15, 288])
def test_heads_that_no_program_holds_are_refused(size: int) -> None:
    with pytest.raises(EngineError, match=f"even head sizes from 16 to 256, not {size}"):
        made(1, 1, size, 4)
