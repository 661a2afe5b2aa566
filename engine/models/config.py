"""What the engine needs to know of any checkpoint, read from its `config.json`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.errors import EngineError

FEW_POSITIONS: Final = {
    "dynamic": "up to which dynamic rope scaling leaves the frequencies alone",
    "longrope": "up to which longrope keeps to its short factors",
}
"""Rope types whose frequencies depend on the length of the text beyond a certain one, and how they say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The shape of a decoder as memory and limits see it.

    `positions` is how many it was made for; `source` the configuration object of `transformers`, from
    which an implementation takes what is its own.
    """

    architecture: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    positions: int
    rope: Mapping[str, Any]
    eos_ids: tuple[int, ...]
    source: Any = field(repr=False, compare=False)

    @classmethod
    def read(cls, folder: Path, *, trust_remote_code: bool = False) -> "ModelConfig":
        """The configuration of a checkpoint folder, with the defaults its own library gives it.

        What the engine cannot compute is an EngineError that names the feature.
        """
        from transformers import GenerationConfig  # noqa: PLC0415  # seconds to import

        from engine.models.features import refuse, source_of  # noqa: PLC0415

        source = source_of(folder, trust_remote_code)
        refuse(source)
        eos = [getattr(source, "eos_token_id", None)]
        if (folder / "generation_config.json").is_file():
            eos.append(GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id)
        return cls.translate(source, eos)

    @classmethod
    def translate(cls, source: Any, eos: Iterable[int | list[int] | None]) -> "ModelConfig":  # noqa: ANN401  # transformers' classes are untyped here
        """The same facts as a configuration object of `transformers` holds."""
        heads = source.num_attention_heads
        rope = dict(getattr(source, "rope_parameters", None) or {})
        return cls(
            architecture=(source.architectures or [source.model_type])[0],
            vocab=source.vocab_size,
            hidden=source.hidden_size,
            layers=source.num_hidden_layers,
            heads=heads,
            kv_heads=getattr(source, "num_key_value_heads", None) or heads,
            head_dim=getattr(source, "head_dim", None) or source.hidden_size // heads,
            positions=_positions(source, rope),
            rope=rope,
            eos_ids=_flat(eos),
            source=source,
        )

    def check_context(self, length: int) -> None:
        """Refuse contexts for which this engine would not compute what the model means."""
        if length <= self.positions:
            return
        limits = [FEW_POSITIONS[kind] for kind in rope_types(self.rope) if kind in FEW_POSITIONS]
        if not self.rope:
            limits.append("for which the model has learned embeddings")
        if limits:
            raise EngineError(
                f"max_context {length} exceeds the {self.positions} positions {limits[0]}"
            )


def rope_types(rope: Mapping[str, Any]) -> set[str]:
    """The types of all layers."""
    return {each["rope_type"] for each in _ropes(rope)}


def _ropes(rope: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One set of parameters, or one for each kind of layer."""
    if not rope or "rope_type" in rope:
        return [rope] if rope else []
    return [each for each in rope.values() if each]


def _positions(source: Any, rope: Mapping[str, Any]) -> int:  # noqa: ANN401
    """As many as one set of frequencies serves."""
    positions = source.max_position_embeddings
    limits = [
        each["original_max_position_embeddings"]
        for each in _ropes(rope)
        if each["rope_type"] == "longrope"
    ]
    return int(min([positions, *limits]))


def _flat(ids: Iterable[int | list[int] | None]) -> tuple[int, ...]:
    found: set[int] = set()
    for entry in ids:
        found.update(entry if isinstance(entry, list) else [] if entry is None else [entry])
    return tuple(sorted(found))
