"""Several ranks compute what one computes, and what each has is its part of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.models.config import ModelConfig
from engine.pages import PagePool
from engine.ranks import ALONE, Shard, heard, spoken
from engine.runner import Engine, bytes_per_page
from tests.engine.conftest import Tiny
from tests.engine.test_models import close
from tests.engine.threads_as_ranks import spanning

CONFIG = EngineConfig(pages=32, page_size=4, max_context=64, dtype="float32")
TEXT = [5, 93, 17, 17, 64, 8, 100, 3, 42, 29, 71, 55, 12, 88, 6, 31, 77, 20, 9, 60, 44, 1, 7]


def test_rows_are_heard_as_they_were_spoken() -> None:
    rows = [
        Row((3, 1, 4), 0, range(7), 2),
        Row([1], 100_000, [2**40], 0),
        Row([9] * 64, 3, [0, 1], 64, seen=[(1 << (n + 1)) - 1 for n in range(64)]),
    ]
    for spoke, heard_ in zip(rows, heard(spoken(rows)), strict=True):
        assert list(heard_.tokens) == list(spoke.tokens)
        assert list(heard_.pages) == list(spoke.pages)
        assert (heard_.start, heard_.logits, heard_.seen) == (spoke.start, spoke.logits, spoke.seen)


@pytest.mark.parametrize(("size", "ranks"), [(8, 2), (7, 3), (2, 2), (101, 4)])
def test_parts_are_neighbours_and_leave_nothing_out(size: int, ranks: int) -> None:
    parts = [Shard(rank, ranks).of(size) for rank in range(ranks)]
    assert [place for part in parts for place in range(size)[part]] == list(range(size))
    widths = {part.stop - part.start for part in parts}
    assert max(widths) - min(widths) <= 1


def test_heads_that_cannot_be_dealt_out_are_refused_with_both_numbers(
    tiny: Callable[[str], Tiny],
) -> None:
    model = ModelConfig.read(tiny("llama").folder)
    assert (model.heads, model.kv_heads) == (6, 2)
    with pytest.raises(EngineError, match="cannot span 3 ranks: its 2 key/value heads are no mult"):
        Shard(0, 3).own(model)
    with pytest.raises(EngineError, match="cannot span 4 ranks: its 6 query heads are no multiple"):
        Shard(0, 4).own(model)
    own = Shard(1, 2).own(model)
    assert (own.heads, own.kv_heads) == (3, 1)
    assert bytes_per_page(own, 4, "float32") * 2 == bytes_per_page(model, 4, "float32")


@pytest.mark.parametrize(
    "name", ["llama", "llama-tied", "llama-biased", "qwen2", "qwen3", "mistral-sliding"]
)
def test_two_ranks_say_what_one_says(tiny: Callable[[str], Tiny], name: str) -> None:
    """A prompt in two chunks beside another, a window that is taken back, single tokens; hidden states, too."""
    model, pool = tiny(name), PagePool(32, 4)
    lone = Engine.load(model.folder, CONFIG)
    with spanning(model.folder, CONFIG) as (two, engines):
        one, other = pool.open(TEXT), pool.open(TEXT[::-1])
        pool.reserve(one, 40)
        pool.reserve(other, 40)
        steps: list[list[tuple[Any, list[int], int, int]]] = [
            [(one, TEXT[:7], 0, 7), (other, TEXT[:9], 0, 1)],
            [(one, [TEXT[7], 99, 98, 97], 7, 4)],
            [(one, TEXT[8:20], 8, 0), (other, TEXT[9:10], 9, 1)],
            [(one, TEXT[20:], 20, 3)],
        ]
        for step in steps:
            rows = [Row(text, start, each.pages, wants) for each, text, start, wants in step]
            ours, expected = two.forward(rows, (0, 2, 4)), lone.forward(rows, (0, 2, 4))
            close(ours.logits_NV, expected.logits_NV)
            for state, rows_TH in expected.hidden.items():
                close(ours.hidden[state], rows_TH)
        close(ours.logits_NV, model.logits(TEXT)[20:])
        for whole, *parts in zip(lone.kv, *(each.kv for each in engines), strict=True):
            close(torch.cat(parts, dim=3), whole)


def test_what_is_refused_nobody_hears_of(tiny: Callable[[str], Tiny]) -> None:
    with spanning(tiny("llama").folder, CONFIG) as (two, _):
        with pytest.raises(EngineError, match="row 0 has no tokens"):
            two.forward([Row([], 0, [0], 0)])
        row = Row(TEXT[:4], 0, [0], 4)
        close(two.forward([row]).logits_NV, tiny("llama").logits(TEXT[:4]))


def test_a_model_of_one_rank_is_as_it_was(tiny: Callable[[str], Tiny]) -> None:
    folder: Path = tiny("llama").folder
    model = ModelConfig.read(folder)
    assert ALONE.shard.own(model) == model
