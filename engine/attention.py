"""What an attention backend is, and which there are.

A backend is a function of the rows of one forward. It does there, once, whatever does not depend on
the layer, and returns the function that every layer calls.

Shapes: T tokens of all rows, A query heads, K key/value heads, D head size, P pages, S positions of
a page; 2 is (key, value).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.config import ModelConfig


class Attend(Protocol):
    """Attention of one layer whose new KV is already in its pages."""

    def __call__(self, q_TAD: "Tensor", kv_PS2KD: "Tensor") -> "Tensor":
        """Causal attention of every row over its own positions, [T, A*D]."""


class Backend(Protocol):
    """One per engine, made for its model and configuration."""

    def prepare(self, rows: Sequence[Row]) -> Attend:
        """Everything about these rows that is the same in all layers."""


Loader = Callable[["ModelConfig", EngineConfig], Backend]


def _sdpa(model: "ModelConfig", config: EngineConfig) -> Backend:
    from engine.attention_sdpa import SdpaAttention  # noqa: PLC0415  # the table lists without torch

    return SdpaAttention(model, config)


BACKENDS: Final[Mapping[str, Loader]] = {"sdpa": _sdpa}


def backend(name: str) -> Loader:
    """The loader of a backend, or EngineError naming what there is."""
    if name not in BACKENDS:
        raise EngineError(f"attention {name} does not exist, only {', '.join(BACKENDS)}")
    return BACKENDS[name]
