"""What flashinfer is told of rows: against a plain reading of their pages, and by one who does what its manual says.

The library itself needs a GPU: `make gpu` compares what it computes, where it is installed.
"""

from typing import Any, Final

import pytest
import torch
from torch import Tensor

from engine.attention import Kind, backend
from engine.attention_flashinfer import FlashinferAttention
from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.page_lists import page_lists
from tests.contracts.attention import PAGE, config, dealt, expected, model

MIXED: Final = [(9, 0), (1, 12), (5, 3), (1, 0), (4, 4), (1, 31), (3, 17)]


class Manual:
    """Its wrapper as its manual describes it, one token at a time, in double precision."""

    def __init__(self) -> None:
        self.plans = 0

    def plan(
        self, qo_indptr: Tensor, paged_kv_indptr: Tensor, paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor, num_qo_heads: int, num_kv_heads: int, head_dim_qk: int,
        page_size: int, *, causal: bool = False, sm_scale: float | None = None,
        window_left: int = -1, logits_soft_cap: float | None = None, **_: Any,
    ) -> None:  # fmt: skip
        self.plans += 1
        arrays = (qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        assert {each.dtype for each in arrays} == {torch.int32}
        self._lists = [each.tolist() for each in arrays]
        self._shape = (num_qo_heads, num_kv_heads, head_dim_qk, page_size)
        self._scale = head_dim_qk**-0.5 if sm_scale is None else sm_scale
        self._causal, self._left, self._cap = causal, window_left, logits_soft_cap

    def run(self, q: Tensor, paged_kv_cache: tuple[Tensor, Tensor]) -> Tensor:
        heads, kv_heads, size, page = self._shape
        assert all(each.shape[1:] == (page, kv_heads, size) for each in paged_kv_cache)
        begins, pages_begin, pages, last = self._lists
        out = torch.zeros(len(q), heads, size, dtype=torch.float64)
        for row, kept in enumerate(last):
            own = torch.tensor(pages[pages_begin[row] : pages_begin[row + 1]])
            keys = (len(own) - 1) * page + kept
            k, v = (
                each[own].flatten(0, 1)[:keys].double().repeat_interleave(heads // kv_heads, 1)
                for each in paged_kv_cache
            )
            count = begins[row + 1] - begins[row]
            for token in range(count):
                at = keys - count + token
                end = at + 1 if self._causal else keys
                first = max(0, at - self._left) if self._left >= 0 else 0
                x = torch.einsum("ad,lad->al", q[begins[row] + token].double(), k[first:end])
                x = x * self._scale
                if self._cap:
                    x = self._cap * torch.tanh(x / self._cap)
                out[begins[row] + token] = torch.einsum("al,lad->ad", x.softmax(-1), v[first:end])
        return out


def made(pages: int, made: list[Manual] | None = None) -> FlashinferAttention:
    """The backend over the manual; `made` collects the wrappers."""
    wrappers = [] if made is None else made

    def one() -> Manual:
        wrappers.append(Manual())
        return wrappers[-1]

    return FlashinferAttention(
        model(4, 2, 64), config("flashinfer", pages, "bfloat16"), lambda _device: one
    )


def test_lists_name_the_pages_that_keys_reach_and_no_others() -> None:
    rows = [
        Row([1, 2, 3], 6, [9, 4, 7, 5], 0),  # 9 keys: two pages and one position; the last is spare
        Row([1], 3, [2, 8], 0),  # 4 keys: one page, full
        Row([1, 2], 0, [3], 0),
    ]
    lists = page_lists(rows, 4)
    assert lists.tokens_B.tolist() == [0, 3, 4, 6]
    assert lists.begins_B.tolist() == [0, 3, 4, 5]
    assert lists.pages_J.tolist() == [9, 4, 7, 2, 3]
    assert lists.last_R.tolist() == [1, 4, 2]
    assert {each.dtype.name for each in (lists.tokens_B, lists.pages_J)} == {"int32"}


@pytest.mark.parametrize(
    "kind", [Kind(), Kind(window=5), Kind(scale=0.3, softcap=4.0)], ids=["plain", "window", "bent"]
)
def test_chunks_windows_and_single_tokens_in_one_call(kind: Kind) -> None:
    torch.manual_seed(1)
    rows, pages = dealt(MIXED)
    kv, q = torch.randn(pages, PAGE, 2, 2, 64), torch.randn(24, 4, 64)
    ours = made(pages).prepare(rows)(q, kv, kind)
    torch.testing.assert_close(ours, expected(q, kv, rows, kind))


def test_blocks_whose_tokens_see_each_other() -> None:
    torch.manual_seed(2)
    rows, pages = dealt([(4, 9), (4, 0), (4, 30)])
    kv, q = torch.randn(pages, PAGE, 2, 2, 64), torch.randn(12, 4, 64)
    ours = made(pages).prepare(rows, causal=False)(q, kv)
    torch.testing.assert_close(ours, expected(q, kv, rows, causal=False))


def test_rows_are_told_once_a_kind_and_wrappers_serve_all_forwards() -> None:
    wrappers: list[Manual] = []
    attention = made(99, wrappers)
    for _forward in range(2):
        rows, pages = dealt(MIXED)
        attend = attention.prepare(rows)
        for _layer in range(3):
            for kind in (Kind(), Kind(window=4)):
                attend(torch.zeros(24, 4, 64), torch.zeros(pages, PAGE, 2, 2, 64), kind)
    assert [each.plans for each in wrappers] == [2, 2]


def test_what_it_cannot_do_is_refused_by_name() -> None:
    rows, pages = dealt([(2, 3)])
    attention = made(pages)
    q, kv = torch.zeros(2, 4, 64), torch.zeros(pages, PAGE, 2, 2, 64)
    tree = Row([1, 2], 3, rows[0].pages, 0, [1, 3])
    with pytest.raises(EngineError, match="flashinfer takes no trees"):
        attention.prepare([tree])
    with pytest.raises(EngineError, match="flashinfer knows no sinks"):
        attention.prepare(rows)(q, kv, Kind(sinks_A=torch.zeros(4)))
    with pytest.raises(EngineError, match="no window where a row sees itself whole"):
        attention.prepare(rows, causal=False)(q, kv, Kind(window=2))
    former = attention.prepare(rows)
    attention.prepare(rows)
    with pytest.raises(EngineError, match="prepared for other rows since"):
        former(q, kv)


@pytest.mark.parametrize(
    ("size", "changes", "complaint"),
    [
        (80, {}, "heads of 64, 128, 256 numbers, not 80"),
        (64, {"dtype": "float32"}, "computes in bfloat16, not in float32"),
        (64, {}, "runs on a CUDA device, not on cpu"),
    ],
)
def test_a_start_that_cannot_work_is_refused(
    size: int, changes: dict[str, Any], complaint: str
) -> None:
    settings = EngineConfig(**({"pages": 1, "max_context": 16} | changes))
    with pytest.raises(EngineError, match=complaint):
        backend("flashinfer")(model(4, 2, size), settings)
