"""The architectures that the engine serves; a new one is a file and a line here."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.attention import Attend
    from engine.batch import Batch
    from engine.models.config import ModelConfig
    from engine.weights import Weights


class Decoder(Protocol):
    """A loaded model: T tokens to hidden states [T, H], and N of those to logits [N, V]."""

    def forward(
        self, batch: "Batch", attend: "Attend", kv: Sequence["Tensor"], hidden: Sequence[int]
    ) -> "tuple[Tensor, Mapping[int, Tensor]]":
        """The residual stream after the last layer, and after those that `hidden` asks for."""

    def logits(self, x_NH: "Tensor") -> "Tensor":
        """Logits of final residuals, in float32."""


class Architecture(Protocol):
    """How checkpoints of a kind are laid out, and what makes a decoder of an open one."""

    def expected(self, config: "ModelConfig") -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors in a checkpoint."""

    def ignored(self, config: "ModelConfig") -> frozenset[str]:
        """Tensors that a checkpoint may hold in vain."""

    def __call__(self, config: "ModelConfig", weights: "Weights", positions: int) -> Decoder:
        """The decoder of an open checkpoint, for contexts of so many positions."""


Loader = Callable[[], Architecture]


def _llama() -> Architecture:
    from engine.models.llama import Llama  # noqa: PLC0415  # listing the table must not load torch

    return Llama


ARCHITECTURES: Final[Mapping[str, Loader]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _llama,
    "Qwen2ForCausalLM": _llama,
    "Qwen3ForCausalLM": _llama,
}


def architecture(name: str) -> Architecture:
    """What serves an architecture, or EngineError naming what there is."""
    if name not in ARCHITECTURES:
        raise EngineError(f"architecture {name} is not served, only {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]()
