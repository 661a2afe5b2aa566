"""Attention by the kernels of flashinfer, on a GPU where that is installed. Nobody has run it there (`docs/gpu.md`).

It is told the rows of a forward once for each kind of layer, when the first such layer comes.

Shapes: T tokens of all rows, A query heads, K key/value heads, D head size, X = A + 2K; P pages, S positions of a page;
2 is (key, value).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import torch
from torch import Tensor

from engine.attention import PLAIN, Attend, Kind
from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.models.config import ModelConfig
from engine.page_lists import PageLists, page_lists
from engine.rotary import store
from engine.upload import there

SIZES: Final = (64, 128, 256)
"""Numbers of a head that it has kernels for."""
WORKSPACE: Final = 128 << 20
"""Bytes that it takes for partial sums, as its authors advise."""


class Wrapper(Protocol):
    """What we use of `flashinfer.BatchPrefillWithPagedKVCacheWrapper`."""

    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        *,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        causal: bool,
        sm_scale: float | None,
        window_left: int,
        logits_soft_cap: float | None,
        q_data_type: torch.dtype,
    ) -> None:
        """The rows that `run` is for: begins of tokens and of pages, the pages, positions in the last of each row."""

    def run(self, q: Tensor, paged_kv_cache: tuple[Tensor, Tensor]) -> Tensor:
        """Attention [T, A, D]; keys and values are [P, S, K, D] each."""


Wrappers = Callable[[], Wrapper]


def installed(device: str) -> Wrappers:
    """What makes wrappers on this device, or an EngineError; they share what they take for partial sums."""
    if device == "cpu":
        raise EngineError("attention flashinfer runs on a CUDA device, not on cpu")
    try:
        from flashinfer import BatchPrefillWithPagedKVCacheWrapper  # noqa: PLC0415  # optional
    except ImportError as error:
        raise EngineError(
            f"attention flashinfer needs `pip install draftmesh[flashinfer]`: {error}"
        ) from error
    space = torch.zeros(WORKSPACE, dtype=torch.uint8, device=device)
    # fa2 reads pages through their strides: keys and values of a position lie side by side here.
    return lambda: BatchPrefillWithPagedKVCacheWrapper(space, "NHD", backend="fa2")


class FlashinferAttention:
    """See `engine.attention.Backend`. One forward at a time: `prepare` ends what was prepared before."""

    def __init__(
        self,
        model: ModelConfig,
        config: EngineConfig,
        wrappers: Callable[[str], Wrappers] = installed,
    ) -> None:
        if model.head_dim not in SIZES:
            known = ", ".join(map(str, SIZES))
            raise EngineError(
                f"attention flashinfer takes heads of {known} numbers, not {model.head_dim}"
            )
        if config.dtype != "bfloat16":
            raise EngineError(f"attention flashinfer computes in bfloat16, not in {config.dtype}")
        self._make = wrappers(config.device)
        self._made: dict[Kind, Wrapper] = {}
        self._model, self._page = model, config.page_size
        self._device = config.device
        self._prepared: _Prepared | None = None

    def prepare(self, rows: Sequence[Row], *, causal: bool = True) -> Attend:
        if any(row.seen is not None for row in rows):
            raise EngineError("attention flashinfer takes no trees")
        self._prepared = _Prepared(self, page_lists(rows, self._page), causal)
        return self._prepared

    def planned(self, prepared: "_Prepared", kind: Kind) -> Wrapper:
        """What runs layers of this kind, told of these rows; an EngineError where it cannot."""
        if prepared is not self._prepared:
            raise EngineError("attention flashinfer has been prepared for other rows since")
        if kind.sinks_A is not None:
            raise EngineError("attention flashinfer knows no sinks")
        if kind.window is not None and not prepared.causal:
            raise EngineError("attention flashinfer knows no window where a row sees itself whole")
        if kind not in self._made:
            self._made[kind] = self._make()
        wrapper, lists = self._made[kind], prepared.lists
        wrapper.plan(
            torch.from_numpy(lists.tokens_B),
            torch.from_numpy(lists.begins_B),
            there(torch.from_numpy(lists.pages_J), self._device),
            torch.from_numpy(lists.last_R),
            num_qo_heads=self._model.heads,
            num_kv_heads=self._model.kv_heads,
            head_dim_qk=self._model.head_dim,
            page_size=self._page,
            causal=prepared.causal,
            sm_scale=kind.scale,
            window_left=-1 if kind.window is None else kind.window - 1,
            logits_soft_cap=kind.softcap,
            q_data_type=torch.bfloat16,
        )
        return wrapper


@dataclass
class _Prepared:
    """See `engine.attention.Attend`."""

    backend: FlashinferAttention
    lists: PageLists
    causal: bool
    planned: dict[Kind, Wrapper] = field(default_factory=dict)

    store = staticmethod(store)

    def __call__(self, q_TAD: Tensor, kv_PS2KD: Tensor, kind: Kind = PLAIN) -> Tensor:
        if kind not in self.planned:
            self.planned[kind] = self.backend.planned(self, kind)
        k_PSKD, v_PSKD = kv_PS2KD.unbind(2)
        out_TAD = self.planned[kind].run(q_TAD.contiguous(), (k_PSKD, v_PSKD))
        return out_TAD.flatten(1)
