"""In bfloat16 a token's logits have the same bits alone, in a window, in a batch and in a prefill.

That is what makes speculative text equal to plain text outside of exact arithmetic. It is a
property of the kernels that the engine chooses and of how it pads, so it is tested at the sizes of
a real model, with as many threads as the process has, where the CPU has the instructions.
"""

import random
from pathlib import Path

import pytest
import torch
import transformers

from engine.config import EngineConfig
from engine.linear import Packed
from engine.pages import PagePool
from engine.runner import Engine
from tests.engine.conftest import Story

pytestmark = pytest.mark.skipif(
    not Packed.supported(), reason="this CPU has no products of bfloat16"
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return made(tmp_path_factory.mktemp("wide"), heads=9, keys=3)


def made(folder: Path, *, heads: int, keys: int) -> Engine:
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=576, intermediate_size=1536, num_hidden_layers=2,
        num_attention_heads=heads, num_key_value_heads=keys, head_dim=64, initializer_range=0.05,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return Engine.load(folder, EngineConfig(pages=1024, max_context=1024))


def texts(count: int, length: int) -> list[list[int]]:
    source = random.Random(3)
    return [[source.randrange(512) for _ in range(length)] for _ in range(count)]


def token_by_token(engine: Engine, text: list[int], start: int = 0) -> torch.Tensor:
    pool = PagePool(1024, 16)
    story = Story(engine, pool, pool.open(text))
    if start:
        story.feed(text[:start])
    return torch.cat([story.feed([token]) for token in text[start:]])


@pytest.mark.parametrize("chunk", [7, 32, 33, 100, 290])
def test_chunks_of_a_prompt(engine: Engine, chunk: int) -> None:
    (text,) = texts(1, 290)
    pool = PagePool(1024, 16)
    story = Story(engine, pool, pool.open(text))
    pieces = [story.feed(text[at : at + chunk]) for at in range(0, len(text), chunk)]
    assert torch.equal(torch.cat(pieces), token_by_token(engine, text))


def test_windows_whose_last_query_would_be_alone(engine: Engine) -> None:
    """Eleven tokens of three queries each are a block of the kernel and one query, which is summed otherwise."""
    for text in texts(3, 704):
        pool = PagePool(1024, 16)
        story = Story(engine, pool, pool.open(text))
        pieces = [story.feed(text[at : at + 11]) for at in range(0, len(text), 11)]
        assert torch.equal(torch.cat(pieces), token_by_token(engine, text))


def test_single_tokens_of_a_model_whose_heads_share_no_keys(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """One query a key head: alone it must be summed as in a window."""
    lone = made(tmp_path_factory.mktemp("lone"), heads=4, keys=4)
    for text in texts(3, 704):
        pool = PagePool(1024, 16)
        story = Story(lone, pool, pool.open(text))
        pieces = [story.feed(text[at : at + 4]) for at in range(0, len(text), 4)]
        assert torch.equal(torch.cat(pieces), token_by_token(lone, text))


def test_windows_in_a_mixed_batch(engine: Engine) -> None:
    source = random.Random(4)
    pool = PagePool(1024, 16)
    known = [source.randrange(16, 700) for _ in range(20)]
    new = [source.randrange(1, 17) for _ in known]
    whole = texts(20, 720)
    alone = [
        token_by_token(engine, text[: old + count], start=old)
        for text, old, count in zip(whole, known, new, strict=True)
    ]
    stories = [Story(engine, pool, pool.open(text)) for text in whole]
    for story, text, old in zip(stories, whole, known, strict=True):
        story.feed(text[:old])
    rows = [
        story.row(text[old : old + count])
        for story, text, old, count in zip(stories, whole, known, new, strict=True)
    ]
    assert torch.equal(engine.forward(rows).logits_NV, torch.cat(alone))
