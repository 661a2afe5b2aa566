"""Features lie where the KV lies, are what `transformers` says, and new tokens of a row may all see each other."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.config import EngineConfig, Implementation
from engine.errors import EngineError
from engine.features import Features, Projection
from engine.pages import PagePool
from engine.runner import Engine, Row
from tests.engine.conftest import Story, Tiny

TEXT = [5, 9, 33, 7, 60, 12, 81, 4, 44, 21]
Make = Callable[[str], Tiny]


def states_of(reference: Any, tokens: list[int]) -> list[Tensor]:  # noqa: ANN401
    """The embedding, what each layer left, and what the last norm made of that."""
    left: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _module, _inputs, out: left.append(out))
        for layer in reference.model.layers
    ]
    with torch.no_grad():
        reference.model(torch.tensor([tokens]))
        for hook in hooks:
            hook.remove()
        left = [each[0] if each.dim() == 3 else each for each in left]
        return [
            reference.model.embed_tokens(torch.tensor(tokens)),
            *left,
            reference.model.norm(left[-1]),
        ]


@pytest.mark.parametrize("implementation", ["auto", "transformers"])
def test_states_are_numbered_from_the_embedding_to_behind_the_last_norm(
    tiny: Make, implementation: Implementation
) -> None:
    """What `transformers` calls the last hidden state is normed: the one before the norm is another number here."""
    model = tiny("qwen3")
    config = EngineConfig(
        pages=32, page_size=4, max_context=128, dtype="float32", implementation=implementation
    )
    engine = Engine.load(model.folder, config)
    seen = engine.forward([Row(TEXT, 0, range(4), 1)], hidden=range(5)).hidden
    for number, state in enumerate(states_of(model.reference, TEXT)):
        torch.testing.assert_close(seen[number], state, atol=1e-4, rtol=1e-4)


def test_rows_come_with_the_pages_of_a_shared_prefix(tiny: Make) -> None:
    model = tiny("llama")
    engine, pool = model.engine(), PagePool(32, 4)
    features = Features((1, 3), 48, 32 * 4, "float32")
    engine.capture(features)
    first = Story(engine, pool, pool.open(TEXT))
    first.feed(TEXT[:6])
    first.feed(TEXT[6:])
    pool.publish(first.sequence, TEXT)
    pool.release(first.sequence)
    second = pool.open([*TEXT, 1])
    assert second.computed == 8
    states = states_of(model.reference, TEXT)
    rows = features.read([(second.pages, 2, 8), (second.pages, 0, 1)], 4)
    wanted = torch.cat((states[1], states[3]), dim=-1)
    torch.testing.assert_close(rows, torch.cat((wanted[2:8], wanted[:1])), atol=1e-4, rtol=1e-4)


def test_projected_rows_are_kept_instead_of_states(tiny: Make) -> None:
    model = tiny("llama")
    fc = Projection(torch.randn(16, 96), norm_F=torch.full((16,), 0.5))
    features = Features((1, 3), 48, 32 * 4, "float32", fc)
    engine = model.engine()
    engine.capture(features)
    engine.forward([Row(TEXT, 0, range(4), 1)])
    states = states_of(model.reference, TEXT)
    wanted = fc(torch.cat((states[1], states[3]), dim=-1))
    torch.testing.assert_close(features.read([(range(4), 0, 10)], 4), wanted, atol=1e-4, rtol=1e-4)
    assert features.text == f"hidden states 1,3 projected by {fc.digest}, width 16, float32"


def test_what_a_projection_takes_must_be_what_is_captured() -> None:
    with pytest.raises(EngineError, match="fc takes 90 numbers, 2 states of 48 have 96"):
        Features((1, 3), 48, 8, "float32", Projection(torch.randn(16, 90)))


def test_new_tokens_that_see_each_other(tiny: Make) -> None:
    """Two rows of different lengths behind contexts of different lengths: each token sees all of its own row."""
    engine = tiny("llama").engine()
    heads, keys, size = engine.model.heads, engine.model.kv_heads, engine.model.head_dim
    kv = torch.randn(32, 4, 2, keys, size)
    q = torch.randn(5, heads, size)
    rows = [Row([1] * 3, 6, [3, 4, 5], 0), Row([1] * 2, 1, [9], 0)]
    out = engine.attention.prepare(rows, causal=False)(q, kv)
    for row, queries in zip(rows, (q[:3], q[3:]), strict=True):
        k, v = kv[torch.tensor(row.pages)].flatten(0, 1)[: row.end].unbind(1)
        k, v = (each.repeat_interleave(heads // keys, 1) for each in (k, v))
        weights = (torch.einsum("qhd,khd->hqk", queries, k) / size**0.5).softmax(-1)
        wanted = torch.einsum("hqk,khd->qhd", weights, v).flatten(1)
        torch.testing.assert_close(out[: len(queries)], wanted, atol=1e-5, rtol=1e-4)
        out = out[len(queries) :]
    with pytest.raises(EngineError, match="has 128 tokens at most"):
        engine.attention.prepare([Row([1] * 129, 0, range(33), 0)], causal=False)
