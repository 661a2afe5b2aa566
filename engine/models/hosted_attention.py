"""The attention that models of `transformers` call, and the masks they ask for: ours, over paged KV.

Both are registered once under NAME. What a call means at the moment says the visitor that is set: a
forward over pages, or the trial of a model that was just loaded.

Shapes: T tokens, A query heads, K key/value heads, D head size, P pages, S positions of a page;
2 is (key, value). The modules put a batch of one in front: 1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from engine.attention import Attend, Kind
from engine.kv import keep

NAME: Final = "draftmesh"
MaskFunction = Callable[[int, int, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Mask:
    """What stands for the mask of a forward: which window it has. Rows and pages say the rest."""

    window: int | None
    function: MaskFunction


class Visitor(Protocol):
    """Who answers the calls of the attention layers."""

    def attention(
        self, layer: nn.Module, q_TAD: Tensor, k_TKD: Tensor, v_TKD: Tensor, kind: Kind
    ) -> Tensor:
        """Attention of one layer, [T, A*D]."""

    def mask(self, mask: Mask) -> None:
        """The model made a mask for some of its layers."""

    def surprise(self, complaint: str) -> None:
        """A call has something in it that means nothing to us."""


_visitor: ContextVar[Visitor] = ContextVar("visitor")


@contextmanager
def visiting(visitor: Visitor) -> Iterator[None]:
    """Inside, attention layers of this thread call this visitor."""
    token = _visitor.set(visitor)
    try:
        yield
    finally:
        _visitor.reset(token)


@dataclass(frozen=True, slots=True)
class Pages:
    """A forward over paged KV; `layers` says which of `kv` is whose."""

    layers: dict[nn.Module, int]
    attend: Attend
    kv: Sequence[Tensor]
    slots_T: Tensor

    def attention(
        self, layer: nn.Module, q_TAD: Tensor, k_TKD: Tensor, v_TKD: Tensor, kind: Kind
    ) -> Tensor:
        kv_PS2KD = self.kv[self.layers[layer]]
        keep(kv_PS2KD, self.slots_T, k_TKD, v_TKD)
        return self.attend(q_TAD, kv_PS2KD, kind)

    def mask(self, mask: Mask) -> None:
        """Rows and pages say who sees whom."""

    def surprise(self, complaint: str) -> None:
        """The trial knew of all there can be."""


def _attention(  # noqa: PLR0917  # the signature is that of transformers
    layer: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sliding_window: int | None = None,
    **others: Any,  # models pass on whatever they were called with
) -> tuple[Tensor, None]:
    visitor = _visitor.get()
    if complaint := _surprise(layer, query, key, attention_mask, others):
        visitor.surprise(complaint)
    window = sliding_window if attention_mask is None else attention_mask.window
    kind = Kind(window or None, scaling, softcap or None, s_aux)
    q_TAD, k_TKD, v_TKD = (each[0].transpose(0, 1) for each in (query, key, value))
    out_TE = visitor.attention(layer, q_TAD, k_TKD, v_TKD, kind)
    return out_TE.view(1, *q_TAD.shape[:2], -1), None


def _surprise(
    layer: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: object,
    others: dict[str, Any],
) -> str:
    if len(query) != 1 or key.shape[2] != query.shape[2]:
        return "attention over other tokens than those of the text"
    if mask is not None and not isinstance(mask, Mask):
        return "a mask of its own"
    if mask is None and not (others.get("is_causal", True) and getattr(layer, "is_causal", True)):
        return "attention that is not causal"
    changing = sorted(
        name
        for name, value in others.items()
        if isinstance(value, Tensor) and name not in _HARMLESS
    )
    return f"attention with {', '.join(changing)}" if changing else ""


_HARMLESS: Final = frozenset(
    {"cache_position", "is_causal", "position_embeddings", "position_ids", "logits_to_keep"}
)
"""Tensors that models pass along and that no attention needs."""


def _mask(mask_function: MaskFunction, local_size: int | None = None, **_: object) -> Mask:
    mask = Mask(local_size, mask_function)
    _visitor.get().mask(mask)
    return mask


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _mask)
