"""The architectures that the engine serves; a new one is a file and a line here."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.models.llama import Llama

Loader = Callable[[], "type[Llama]"]


def _llama() -> "type[Llama]":
    from engine.models.llama import Llama  # noqa: PLC0415  # listing the table must not load torch

    return Llama


ARCHITECTURES: Final[Mapping[str, Loader]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _llama,
    "Qwen2ForCausalLM": _llama,
    "Qwen3ForCausalLM": _llama,
}


def architecture(name: str) -> "type[Llama]":
    """The class that serves an architecture, or EngineError naming what there is."""
    if name not in ARCHITECTURES:
        raise EngineError(f"architecture {name} is not served, only {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]()
