"""Every architecture computes what transformers computes, however the text is cut up."""

import copy
from collections.abc import Callable

import pytest
import torch

from engine.config import EngineConfig
from engine.grouping import QUERIES_AT_ONCE
from engine.models.config import ModelConfig
from engine.models.llama_shape import LlamaShape
from engine.pages import PagePool
from engine.runner import Engine, Row
from tests.engine.conftest import MODELS, Story, Tiny

Make = Callable[[str], Tiny]
TEXT = [5, 93, 17, 17, 64, 8, 100, 3, 42, 29, 71, 55, 12, 88, 6, 31, 77, 20, 9, 60, 44, 1, 2]


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


def begin(tiny: Tiny) -> Story:
    pool = PagePool(32, 4)
    return Story(tiny.engine(), pool, pool.open(TEXT))


@pytest.mark.parametrize("name", MODELS)
def test_a_whole_prompt(tiny: Make, name: str) -> None:
    close(begin(tiny(name)).feed(TEXT), tiny(name).logits(TEXT))


@pytest.mark.parametrize("name", MODELS)
def test_chunks_then_single_tokens(tiny: Make, name: str) -> None:
    story = begin(tiny(name))
    pieces = [story.feed(TEXT[a:b]) for a, b in [(0, 7), (7, 8), (8, 19), (19, 20), (20, 23)]]
    close(torch.cat(pieces), tiny(name).logits(TEXT))


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_a_window_is_taken_back_and_other_tokens_follow(tiny: Make, name: str) -> None:
    story = begin(tiny(name))
    story.feed(TEXT[:10])
    story.feed([TEXT[10], 99, 98, 97, 96])
    story.back_to(11)
    close(story.feed(TEXT[11:]), tiny(name).logits(TEXT)[11:])


def test_rows_of_every_kind_in_one_forward(tiny: Make) -> None:
    model = tiny("qwen2")
    engine, pool = model.engine(pages=64), PagePool(64, 4)
    texts = [[(7 * i + 3 * j) % 101 for j in range(50)] for i in range(7)]
    known = [0, 30, 41, 5, 0, 12, 13]
    new = [9, 1, 4, 1, 33, 5, 1]
    wanted = [9, 1, 4, 0, 1, 3, 1]
    stories = [Story(engine, pool, pool.open(text)) for text in texts]
    for story, text, old in zip(stories, texts, known, strict=True):
        if old:
            story.feed(text[:old])
    rows = [
        story.row(text[old : old + count], logits)
        for story, text, old, count, logits in zip(stories, texts, known, new, wanted, strict=True)
    ]
    expected = [
        model.logits(text[: old + count])[old + count - logits :]
        for text, old, count, logits in zip(texts, known, new, wanted, strict=True)
    ]
    close(engine.forward(rows).logits_NV, torch.cat(expected))


def test_a_chunk_longer_than_attention_takes_at_once(tiny: Make) -> None:
    model = tiny("llama")
    text = [(11 * i + i * i) % 101 for i in range(QUERIES_AT_ONCE + 60)]
    engine, pool = model.engine(pages=64, max_context=256), PagePool(64, 4)
    story = Story(engine, pool, pool.open(text))
    first = story.feed(text[:20])
    close(torch.cat((first, story.feed(text[20:]))), model.logits(text))


def test_a_shared_prefix_is_not_computed_again(tiny: Make) -> None:
    model = tiny("mistral")
    engine, pool = model.engine(), PagePool(32, 4)
    first = Story(engine, pool, pool.open(TEXT))
    first.feed(TEXT)
    pool.publish(first.sequence, TEXT)
    other = [*TEXT[:14], 90, 91, 92, 93]
    second = Story(engine, pool, pool.open(other))
    assert second.sequence.computed == 12
    assert second.sequence.pages == first.sequence.pages[:3]
    close(second.feed(other[12:]), model.logits(other)[12:])
    close(first.feed([50]), model.logits([*TEXT, 50])[-1:])


@pytest.mark.parametrize("name", ["llama-tied", "qwen3"])
def test_greedy_text_is_the_same(tiny: Make, name: str) -> None:
    model = tiny(name)
    expected = model.reference.generate(
        torch.tensor([TEXT]), max_new_tokens=40, do_sample=False, eos_token_id=None
    )[0].tolist()
    story = begin(model)
    text = list(TEXT)
    logits = story.feed(text)
    while len(text) < len(expected):
        text.append(int(logits[-1].argmax()))
        logits = story.feed(text[-1:])
    assert text == expected


def test_hidden_states_are_residuals_before_the_final_norm(tiny: Make) -> None:
    model = tiny("llama")
    story = begin(model)
    ours = story.engine.forward([story.row(TEXT, logits=0)], hidden=(0, 2, 3))
    with torch.no_grad():
        theirs = model.reference(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    assert ours.logits_NV.shape == (0, 101)
    assert list(ours.hidden) == [0, 2, 3]
    close(ours.hidden[0], theirs[0][0])
    close(ours.hidden[2], theirs[2][0])
    with torch.no_grad():
        close(model.reference.model.norm(ours.hidden[3]), theirs[3][0])


def test_hidden_states_are_not_changed_by_later_forwards(tiny: Make) -> None:
    story = begin(tiny("llama"))
    ours = story.engine.forward([story.row(TEXT[:9])], hidden=(0, 1, 2, 3))
    before = {k: state.clone() for k, state in ours.hidden.items()}
    story.feed(TEXT[9:])
    for k, state in before.items():
        assert torch.equal(ours.hidden[k], state)


@pytest.mark.parametrize("name", ["llama", "llama-biased", "qwen2", "qwen3"])
def test_bfloat16_is_no_further_from_float32_than_transformers_is(tiny: Make, name: str) -> None:
    model = tiny(name)
    exact = model.logits(TEXT)
    engine = Engine.load(model.folder, EngineConfig(pages=32, page_size=4, max_context=64))
    ours = engine.forward([Row(TEXT, 0, list(range(6)), len(TEXT))]).logits_NV
    with torch.no_grad():
        rough = copy.deepcopy(model.reference).to(torch.bfloat16)
        theirs = rough(torch.tensor([TEXT])).logits[0].float()
    assert ours.dtype == torch.float32
    assert (ours - exact).abs().mean() < 1.1 * (theirs - exact).abs().mean()


def test_the_configuration_of_a_checkpoint(tiny: Make) -> None:
    config = ModelConfig.read(tiny("qwen3").folder)
    assert (config.layers, config.heads, config.kv_heads, config.head_dim) == (3, 6, 2, 16)
    assert (config.architecture, config.eos_ids, config.positions) == (
        "Qwen3ForCausalLM",
        (2,),
        256,
    )
    shape = LlamaShape.of(config)
    assert (shape.tied, shape.qk_norm, shape.qkv_bias) == (True, True, False)
    assert shape.windows == (None, None, None)
    assert LlamaShape.of(ModelConfig.read(tiny("qwen2-mixed").folder)).windows == (6, None, 6)
