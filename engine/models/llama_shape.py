"""What is particular to a model of the Llama family."""

from dataclasses import dataclass
from typing import Any, Final

from engine.models.config import ModelConfig

# Frequencies that do not depend on the length of a text. `dynamic` does not up to the trained length.
ROPES: Final = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """`windows` says of each layer how many positions it sees, the token's own included; None is all."""

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
    windows: tuple[int | None, ...]

    @classmethod
    def of(cls, model: ModelConfig) -> "LlamaShape":
        """Its own facts, with the general ones."""
        source = model.source
        bias = bool(getattr(source, "attention_bias", False))
        return cls(
            vocab=model.vocab,
            hidden=model.hidden,
            layers=model.layers,
            heads=model.heads,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            intermediate=source.intermediate_size,
            eps=source.rms_norm_eps,
            tied=source.tie_word_embeddings,
            qkv_bias=bias or source.model_type == "qwen2",
            output_bias=bias and source.model_type != "qwen2",
            mlp_bias=bool(getattr(source, "mlp_bias", False)),
            qk_norm=source.model_type == "qwen3",
            windows=_windows(source),
        )

    @staticmethod
    def fits(model: ModelConfig) -> bool:
        """Whether the lean implementation computes all that this configuration asks for."""
        source = model.source
        return (
            source.model_type in {"llama", "mistral", "qwen2", "qwen3"}
            and source.hidden_act == "silu"
            and model.rope.get("rope_type") in ROPES
            and model.rope.get("partial_rotary_factor", 1.0) == 1.0
        )

    def expected(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors in a checkpoint."""
        H, D, I = self.hidden, self.head_dim, self.intermediate  # noqa: E741
        E, KD = self.heads * D, self.kv_heads * D
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab, H),
            "model.norm.weight": (H,),
        }
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocab, H)
        linears = {
            "self_attn.q_proj": (E, H, self.qkv_bias),
            "self_attn.k_proj": (KD, H, self.qkv_bias),
            "self_attn.v_proj": (KD, H, self.qkv_bias),
            "self_attn.o_proj": (H, E, self.output_bias),
            "mlp.gate_proj": (I, H, self.mlp_bias),
            "mlp.up_proj": (I, H, self.mlp_bias),
            "mlp.down_proj": (H, I, self.mlp_bias),
        }
        norms = {"input_layernorm": H, "post_attention_layernorm": H}
        if self.qk_norm:
            norms |= {"self_attn.q_norm": D, "self_attn.k_norm": D}
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            for name, size in norms.items():
                shapes[f"{at}{name}.weight"] = (size,)
            for name, (outputs, inputs, bias) in linears.items():
                shapes[f"{at}{name}.weight"] = (outputs, inputs)
                if bias:
                    shapes[f"{at}{name}.bias"] = (outputs,)
        return shapes

    @property
    def ignored(self) -> frozenset[str]:
        """Tensors that a checkpoint may hold in vain."""
        return frozenset({"lm_head.weight"}) if self.tied else frozenset()


def _windows(source: Any) -> tuple[int | None, ...]:  # noqa: ANN401
    """A layer slides if its type says so; where layers have no types, the window holds for all."""
    window: int | None = getattr(source, "sliding_window", None)
    kinds: list[str] | None = getattr(source, "layer_types", None)
    if kinds is None:
        return (window,) * int(source.num_hidden_layers)
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
