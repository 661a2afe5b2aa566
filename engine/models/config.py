"""What the engine needs to know of a checkpoint, read from its `config.json`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.errors import EngineError

# Frequencies that do not depend on the length of a text. `dynamic` does not up to the trained length.
ROPES: Final = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The shape of a decoder; `window` is the narrowest attention window of a layer, if one has any."""

    architecture: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float
    tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    positions: int
    window: int | None
    rope: Mapping[str, Any]
    eos_ids: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path) -> "ModelConfig":
        """The configuration of a checkpoint folder, with the defaults its own library gives it."""
        from transformers import AutoConfig, GenerationConfig  # noqa: PLC0415  # seconds to import

        if not (folder / "config.json").is_file():
            raise EngineError(f"{folder} is no checkpoint: it has no config.json")
        source = AutoConfig.from_pretrained(folder, local_files_only=True)
        eos = [source.eos_token_id]
        if (folder / "generation_config.json").is_file():
            eos.append(GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id)
        return cls.translate(source, eos)

    @classmethod
    def translate(cls, source: Any, eos: Iterable[int | list[int] | None]) -> "ModelConfig":  # noqa: ANN401  # transformers' classes are untyped here
        """The same facts as a configuration object of `transformers` holds."""
        architecture = (source.architectures or [source.model_type])[0]
        if source.hidden_act != "silu":
            raise EngineError(f"{architecture} with {source.hidden_act} is not served, only silu")
        rope = dict(source.rope_parameters)
        if rope["rope_type"] not in ROPES:
            raise EngineError(
                f"rope type {rope['rope_type']} is not served, only {', '.join(ROPES)}"
            )
        bias = bool(getattr(source, "attention_bias", False))
        return cls(
            architecture=architecture,
            vocab=source.vocab_size,
            hidden=source.hidden_size,
            layers=source.num_hidden_layers,
            heads=source.num_attention_heads,
            kv_heads=source.num_key_value_heads,
            head_dim=getattr(source, "head_dim", None)
            or source.hidden_size // source.num_attention_heads,
            intermediate=source.intermediate_size,
            eps=source.rms_norm_eps,
            tied=source.tie_word_embeddings,
            qkv_bias=bias or source.model_type == "qwen2",
            output_bias=bias,
            mlp_bias=bool(getattr(source, "mlp_bias", False)),
            qk_norm=source.model_type == "qwen3",
            positions=source.max_position_embeddings,
            window=_window(source),
            rope=rope,
            eos_ids=_flat(eos),
        )

    def check_context(self, length: int) -> None:
        """Refuse contexts for which this engine would not compute what the model means."""
        if self.window is not None and length > self.window:
            raise EngineError(
                f"max_context {length} exceeds the sliding window of {self.window} positions"
            )
        if self.rope["rope_type"] == "dynamic" and length > self.positions:
            raise EngineError(
                f"max_context {length} exceeds the {self.positions} positions up to which dynamic "
                "rope scaling leaves the frequencies alone"
            )


def _window(source: Any) -> int | None:  # noqa: ANN401
    """A layer slides if its type says so; where layers have no types, the window holds for all."""
    kinds = getattr(source, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    window: int | None = getattr(source, "sliding_window", None)
    return window


def _flat(ids: Iterable[int | list[int] | None]) -> tuple[int, ...]:
    found: set[int] = set()
    for entry in ids:
        found.update(entry if isinstance(entry, list) else [] if entry is None else [entry])
    return tuple(sorted(found))
