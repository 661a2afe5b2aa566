"""What an attention backend is, and which there are.

A backend is a function of the rows of one forward. It does there, once, whatever does not depend on
the layer, and returns the function that every layer calls.

Shapes: T tokens of all rows, A query heads, K key/value heads, D head size, P pages, S positions of
a page; 2 is (key, value).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Kind:
    """How a layer attends; what is None is as usual.

    A token sees `window` positions, its own included. Products of queries and keys are multiplied by
    `scale` (1/sqrt(D)), then bent by `softcap * tanh(x / softcap)`. `sinks_A` are further logits, one
    a head, that take their share of the weight and give nothing.
    """

    window: int | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks_A: "Tensor | None" = field(default=None, compare=False)


PLAIN: Final = Kind()


class Attend(Protocol):
    """Attention of one layer, for the rows that it was prepared for."""

    def store(
        self,
        qkv_TXD: "Tensor",
        cos_T1D: "Tensor",
        sin_T1D: "Tensor",
        slots_T: "Tensor",
        kv_PS2KD: "Tensor",
    ) -> "Tensor":
        """Turn queries and keys, put keys and values into their slots: the queries [T, A, D].

        The heads of queries, keys and values lie side by side, and are changed in place.
        """

    def __call__(self, q_TAD: "Tensor", kv_PS2KD: "Tensor", kind: Kind = PLAIN) -> "Tensor":
        """Attention of every row over its own positions, [T, A*D]; its new KV is in its pages already."""


class Backend(Protocol):
    """One per engine, made for its model and configuration."""

    def prepare(self, rows: Sequence[Row], *, causal: bool = True) -> Attend:
        """Everything about these rows that is the same in all layers.

        Where it is not causal, every new token of a row sees all others of it.
        """


Reached = Callable[[int], None]
"""Told, while a forward runs, how many of its layers have their new KV in the pages."""


class Telling:
    """The same attention of one forward; `reached` hears of each layer behind its call."""

    def __init__(self, attend: Attend, reached: Reached) -> None:
        self.store = attend.store
        self._attend = attend
        self._reached = reached
        self._layers = 0

    def __call__(self, q_TAD: "Tensor", kv_PS2KD: "Tensor", kind: Kind = PLAIN) -> "Tensor":
        out_TE = self._attend(q_TAD, kv_PS2KD, kind)
        self._layers += 1
        self._reached(self._layers)
        return out_TE


Loader = Callable[["ModelConfig", EngineConfig], Backend]


def _sdpa(model: "ModelConfig", config: EngineConfig) -> Backend:
    from engine.attention_sdpa import SdpaAttention  # noqa: PLC0415  # the table lists without torch

    return SdpaAttention(model, config)


def _triton(model: "ModelConfig", config: EngineConfig) -> Backend:
    from engine.attention_triton import TritonAttention  # noqa: PLC0415

    return TritonAttention(model, config)


def _flashinfer(model: "ModelConfig", config: EngineConfig) -> Backend:
    from engine.attention_flashinfer import FlashinferAttention  # noqa: PLC0415

    return FlashinferAttention(model, config)


BACKENDS: Final[Mapping[str, Loader]] = {
    "sdpa": _sdpa,
    "triton": _triton,
    "flashinfer": _flashinfer,
}


def chosen(name: str, device: str) -> str:
    """What `auto` stands for on a device; other names stand for themselves."""
    return {"cpu": "sdpa"}.get(device, "triton") if name == "auto" else name


def backend(name: str, device: str = "cpu") -> Loader:
    """The loader of a backend, or EngineError naming what there is."""
    name = chosen(name, device)
    if name not in BACKENDS:
        raise EngineError(f"attention {name} does not exist, only auto, {', '.join(BACKENDS)}")
    return BACKENDS[name]
