"""What of a configuration this engine cannot compute, by name, before any weight is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from engine.errors import EngineError

SERVED_LAYERS: Final = frozenset({"full_attention", "sliding_attention", "attention"})
LAYERS: Final = {
    "linear_attention": "state-space or linear-attention layers",
    "mamba": "state-space layers",
    "hybrid": "layers that mix attention and a recurrent state",
    "conv": "convolution layers",
    "chunked_attention": "chunked attention",
    "indexed_attention": "sparse attention through an index",
}
"""What kinds of layers in a configuration stand for, where their name alone does not say it."""
SENSES: Final = ("vision", "audio", "image", "speech", "video", "vq_")
"""How the parts of a configuration begin that describe other input than text."""


def source_of(folder: Path, trust_remote_code: bool) -> Any:  # noqa: ANN401  # transformers is untyped here
    """The configuration object of a checkpoint folder; code in the folder runs only where it is trusted."""
    from transformers import AutoConfig  # noqa: PLC0415  # seconds to import

    if not (folder / "config.json").is_file():
        raise EngineError(f"{folder} is no checkpoint: it has no config.json")
    try:
        return AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        if not trust_remote_code and "trust_remote_code" in str(error):
            text = "is defined by code of its own, which runs only with trust_remote_code"
            raise EngineError(f"the model in {folder} {text}") from error
        raise EngineError(f"{folder}/config.json cannot be read: {first_line(error)}") from error


def refuse(source: Any) -> None:  # noqa: ANN401
    """An EngineError that names the first feature of a model that cannot be computed here."""
    name = (source.architectures or [source.model_type])[0]
    for feature in FEATURES:
        if found := feature(source):
            raise EngineError(f"{name} is not served: it has {found}")
    if not name.endswith(("ForCausalLM", "LMHeadModel")) and source.architectures:
        raise EngineError(f"{name} is not served: it is no causal language model")


def _crosses(source: Any) -> str:  # noqa: ANN401
    crossing = (
        source.is_encoder_decoder
        or getattr(source, "add_cross_attention", False)
        or getattr(source, "cross_attention_layers", None)
    )
    return "cross-attention, to an encoder" if crossing else ""


def _sees(source: Any) -> str:  # noqa: ANN401
    parts = [name for name in source.sub_configs if name.startswith(SENSES)]
    return f"multimodal input ({', '.join(sorted(parts))})" if parts else ""


def _mixes(source: Any) -> str:  # noqa: ANN401
    kinds = sorted(set(getattr(source, "layer_types", None) or ()) - SERVED_LAYERS)
    if kinds:
        return ", ".join(LAYERS.get(kind, f"layers of the kind {kind}") for kind in kinds)
    return "a latent KV cache" if getattr(source, "kv_lora_rank", None) else ""


def _remembers(source: Any) -> str:  # noqa: ANN401
    """Read from the class that transformers has for it; code that came with the model is tried out later."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING  # noqa: PLC0415

    if type(source) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        own = "AutoModelForCausalLM" in (getattr(source, "auto_map", None) or {})
        return "" if own else "no causal language model in this version of transformers"
    kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(source)]
    if kind._is_stateful:  # noqa: SLF001  # the only place where transformers says so
        return "a recurrent state"
    return "" if kind.is_backend_compatible() else "attention that cannot be replaced"


FEATURES: Final[tuple[Callable[[Any], str], ...]] = (_crosses, _sees, _mixes, _remembers)
"""Each names what it finds, or nothing."""


def first_line(error: BaseException) -> str:
    """What an error of a library says first."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
