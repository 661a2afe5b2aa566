"""What computes which model: lean implementations by architecture, everything else through `transformers`.

A lean implementation is a file and a line in the table.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from engine.config import EngineConfig, Implementation
from engine.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from torch import Tensor

    from engine.attention import Attend
    from engine.batch import Batch
    from engine.models.config import ModelConfig


class Decoder(Protocol):
    """A loaded model over paged KV."""

    def forward(
        self, batch: "Batch", attend: "Attend", kv: Sequence["Tensor"], hidden: Collection[int]
    ) -> "tuple[Tensor, Mapping[int, Tensor]]":
        """Write the KV of T tokens; logits [N, V] of the wanted ones, and residual streams [T, H]; of its dtype.

        Stream 0 is the embedding and k what layer k-1 left, before any norm; the one after the last of
        those is what the last norm makes of it.
        """


class Architecture(Protocol):
    """What makes decoders of a kind of checkpoints."""

    def fits(self, model: "ModelConfig") -> bool:
        """Whether it computes all that this configuration asks for."""

    def load(
        self, folder: Path, model: "ModelConfig", config: EngineConfig, ranks: Ranks = ALONE
    ) -> Decoder:
        """The decoder of a checkpoint folder, for contexts as long as `config` says; or EngineError.

        Of several ranks each has its part of it: `model` is the whole, KV and attention are of its own heads.
        """


Loader = Callable[[], Architecture]


def _llama() -> Architecture:
    from engine.models.llama import Llama  # noqa: PLC0415  # listing the table must not load torch

    return Llama


def _hosted() -> Architecture:
    from engine.models.hosted import Hosted  # noqa: PLC0415

    return Hosted


ARCHITECTURES: Final[Mapping[str, Loader]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _llama,
    "Qwen2ForCausalLM": _llama,
    "Qwen3ForCausalLM": _llama,
}


def lean(model: "ModelConfig", implementation: Implementation = "auto") -> bool:
    """Whether a model is computed by an implementation of our own."""
    return architecture(model, implementation) is not _hosted()


def architecture(model: "ModelConfig", implementation: Implementation = "auto") -> Architecture:
    """What serves a model: the lean implementation if there is one and none other was asked for."""
    lean = ARCHITECTURES.get(model.architecture)
    if implementation == "auto" and lean is not None and (kind := lean()).fits(model):
        return kind
    return _hosted()
