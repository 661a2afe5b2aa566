"""EAGLE heads: one token a step, each step fed with what the last one made."""

from typing import Any

from drafter.checkpoints.head import Head, Source
from drafter.checkpoints.parts import Shapes, decoder, names, tables, vocabulary
from engine.models.config import ModelConfig


def eagle(source: Source, model: ModelConfig) -> Head:
    """EAGLE-1 and -2: `fc` joins a token's embedding with the state before it; the target's head judges."""
    hidden = model.hidden
    needed: Shapes = {"fc.weight": (hidden, 2 * hidden)}
    if source.config.get("bias", True):
        needed["fc.bias"] = (hidden,)
    for layer in range(model.layers):
        norms = ("input_layernorm", "post_attention_layernorm")[layer == 0 :]
        needed |= decoder(model, layer, hidden, norms)
    _, optional = tables(source, source.target.vocab, hidden)
    return Head(
        kind="eagle",
        dialect="eagle",
        folder=source.folder,
        model=model,
        states=source.states or (source.target.layers + 1,),
        names=names(source, needed, optional),
        vocab=source.target.vocab,
        target=source.target,
        norms_logits=False,
    )


def eagle3(source: Source, model: ModelConfig, dialect: str, **more: Any) -> Head:
    """EAGLE-3: `fc` joins several states into one; the first layer reads a token's embedding beside it."""
    hidden, vocab = model.hidden, vocabulary(source)
    states: tuple[int, ...] = more.pop("states")
    captured = len(states) * source.target.hidden
    needed: Shapes = {"fc.weight": (hidden, captured), "norm.weight": (hidden,)}
    inner = ("input_layernorm", "post_attention_layernorm")
    for layer in range(model.layers):
        first = layer == 0
        norms = (*inner, "hidden_norm") if first else inner
        needed |= decoder(model, layer, 2 * hidden if first else hidden, norms)
    if more.get("joint_norm"):
        needed["input_norm.weight"] = (captured,)
    if more.get("part_norms"):
        needed |= {f"fc_norm.{part}.weight": (source.target.hidden,) for part in range(len(states))}
    tied, optional = tables(source, vocab, hidden)
    if vocab != source.target.vocab:  # published ones have it: one without was cut short
        tied["lm_head.weight"] = (vocab, hidden)
    return Head(
        kind="eagle3",
        dialect=dialect,
        folder=source.folder,
        model=model,
        states=states,
        names=names(source, needed | tied, optional),
        vocab=vocab,
        target=source.target,
        **more,
    )
