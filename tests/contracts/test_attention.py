"""The contract of attention, for the backend that DRAFTMESH_ATTENTION names: `tests/kernels` runs it for `triton`."""

import os

import pytest
import torch

from engine.attention import BACKENDS, Kind, backend
from engine.batch import Row
from engine.errors import EngineError
from engine.rotary import rotate_
from tests.contracts.attention import PAGE, config, dealt, expected, model

NAME = os.environ.get("DRAFTMESH_ATTENTION", "sdpa")
MIXED = [(9, 0), (1, 12), (5, 3), (1, 0), (4, 4), (1, 31), (3, 17)]


def close(ours: torch.Tensor, exact: torch.Tensor) -> None:
    torch.testing.assert_close(ours.double(), exact, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(6, 2, 64), (4, 4, 16), (3, 1, 80)])
def test_chunks_windows_and_single_tokens_in_one_call(
    heads: int, kv_heads: int, head_dim: int
) -> None:
    torch.manual_seed(heads)
    rows, pages = dealt(MIXED)
    kv = torch.randn(pages, PAGE, 2, kv_heads, head_dim)
    q = torch.randn(sum(new for new, _ in MIXED), heads, head_dim)
    attend = backend(NAME)(model(heads, kv_heads, head_dim), config(NAME, pages)).prepare(rows)
    close(attend(q, kv), expected(q, kv, rows))


@pytest.mark.parametrize(
    "kind",
    [
        Kind(window=5),
        Kind(scale=0.3, softcap=4.0),
        Kind(window=7, sinks_A=torch.tensor([0.5, -1.0, 2.0, 0.0])),
    ],
    ids=["window", "scale and softcap", "window and sinks"],
)
def test_kinds_of_layers(kind: Kind) -> None:
    torch.manual_seed(1)
    rows, pages = dealt(MIXED)
    kv, q = torch.randn(pages, PAGE, 2, 2, 32), torch.randn(24, 4, 32)
    attend = backend(NAME)(model(4, 2, 32), config(NAME, pages)).prepare(rows)
    close(attend(q, kv, kind), expected(q, kv, rows, kind))


def test_blocks_whose_tokens_see_each_other() -> None:
    torch.manual_seed(2)
    rows, pages = dealt([(4, 9), (4, 0), (4, 30)])
    kv, q = torch.randn(pages, PAGE, 2, 2, 32), torch.randn(12, 4, 32)
    made = backend(NAME)(model(4, 2, 32), config(NAME, pages))
    close(made.prepare(rows, causal=False)(q, kv), expected(q, kv, rows, causal=False))


def test_keys_and_values_are_stored_turned_and_nothing_else_is_touched() -> None:
    torch.manual_seed(3)
    heads, kv_heads, size = 6, 2, 16
    rows, pages = dealt([(3, 6), (1, 2)])
    slots = torch.tensor([row.pages[i // PAGE] * PAGE + i % PAGE for row in rows for i in
                          range(row.start, row.end)])  # fmt: skip
    kv = torch.randn(pages, PAGE, 2, kv_heads, size)
    qkv = torch.randn(4, heads + 2 * kv_heads, size)
    angles = torch.randn(4, 1, size // 2)
    cos = torch.cat((angles.cos(), angles.cos()), -1)
    sin = torch.cat((-angles.sin(), angles.sin()), -1)
    turned = qkv.double()
    rotate_(turned[:, : heads + kv_heads], cos.double(), sin.double())
    wanted = kv.double()
    wanted.view(-1, 2 * kv_heads, size)[slots] = turned[:, heads:]
    attend = backend(NAME)(model(heads, kv_heads, size), config(NAME, pages)).prepare(rows)
    q = attend.store(qkv.clone(), cos, sin, slots, kv)
    close(q, turned[:, :heads])
    close(kv, wanted)


def test_an_unknown_backend_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        EngineError, match=f"attention fast does not exist, only auto, {', '.join(BACKENDS)}"
    ):
        backend("fast")


def test_tokens_of_other_rows_do_not_matter() -> None:
    torch.manual_seed(4)
    rows, pages = dealt([(5, 7), (2, 9)])
    kv, q = torch.randn(pages, PAGE, 2, 1, 32), torch.randn(7, 4, 32)
    made = backend(NAME)(model(4, 1, 32), config(NAME, pages))
    together = made.prepare(rows)(q, kv)
    alone = made.prepare([Row([1] * 2, 9, rows[1].pages, 0)])(q[5:], kv)
    torch.testing.assert_close(together[5:], alone)
