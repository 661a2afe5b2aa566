"""DFlash and DSpark heads: a whole block in one pass over what the target's states say of the context."""

from collections.abc import Mapping
from typing import Any, Final

from drafter.checkpoints.head import CheckpointError, Head, Markov, Source
from drafter.checkpoints.parts import Shapes, decoder, names, tables, vocabulary
from engine.models.config import ModelConfig

MARKOVS: Final[tuple[Markov, ...]] = ("vanilla", "gated", "rnn")


def default_ids(layers: int, count: int) -> list[int]:
    """Outputs of so many layers spread over the target, as published heads were trained."""
    if count == 1:
        return [layers // 2]
    return [round(1 + index * (layers - 4) / (count - 1)) for index in range(count)]


def dflash(source: Source, model: ModelConfig, dialect: str, **more: Any) -> Head:
    """The block alone: slot j guesses its own position, the first is the anchor."""
    return _head(source, model, dialect, "dflash", {}, **more)


def dspark(
    source: Source,
    model: ModelConfig,
    dialect: str,
    fields: Mapping[str, Any],
    **more: Any,
) -> Head:
    """The block, then a bias from each token to the next, and how sure each guess is."""
    hidden, vocab = model.hidden, vocabulary(source)
    rank = int(fields.get("markov_rank") or 0)
    kind = str(fields.get("markov_head_type") or "vanilla").lower() if rank else ""
    if kind and kind not in MARKOVS:
        raise CheckpointError(
            f"{source.folder}: markov_head_type {kind!r} is not known, only {', '.join(MARKOVS)}"
        )
    needed: Shapes = {}
    if rank:
        needed["markov_head.markov_w1.weight"] = (source.target.vocab, rank)
        needed["markov_head.markov_w2.weight"] = (vocab, rank)
    if kind == "gated":
        needed["markov_head.gate_proj.weight"] = (rank, hidden + rank)
        needed["markov_head.gate_proj.bias"] = (rank,)
    if kind == "rnn":
        needed["markov_head.joint_proj.weight"] = (3 * rank, 2 * rank + hidden)
        needed["markov_head.joint_proj.bias"] = (3 * rank,)
    confidence = bool(fields.get("enable_confidence_head", True))
    joined = bool(fields.get("confidence_head_with_markov", True)) and confidence
    if joined and not rank:
        raise CheckpointError(
            f"{source.folder}: confidence_head_with_markov is true, markov_rank is {rank}"
        )
    if confidence:
        needed["confidence_head.proj.weight"] = (1, hidden + (rank if joined else 0))
        needed["confidence_head.proj.bias"] = (1,)
    return _head(
        source, model, dialect, "dspark", needed,
        markov=kind, rank=rank, confidence=confidence, confidence_with_markov=joined,
        confidence_temperatures=_temperatures(source, fields, more), **more,
    )  # fmt: skip


def _temperatures(
    source: Source, fields: Mapping[str, Any], more: Mapping[str, Any]
) -> tuple[float, ...]:
    """How a calibration divides each slot's confidence logit; our own field, which no dialect has."""
    found = tuple(float(each) for each in fields.get("confidence_temperatures") or ())
    guesses = int(more["block"]) - (not more["from_anchor"])
    if found and (len(found) != guesses or min(found) <= 0):
        raise CheckpointError(
            f"{source.folder}: confidence_temperatures are {list(found)}, "
            f"wanted are {guesses} numbers above 0"
        )
    return found


def _head(
    source: Source,
    model: ModelConfig,
    dialect: str,
    kind: str,
    extra: Shapes,
    **more: Any,
) -> Head:
    hidden, vocab = model.hidden, vocabulary(source)
    states: tuple[int, ...] = more.pop("states")
    needed: Shapes = {
        "fc.weight": (hidden, len(states) * source.target.hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
        **extra,
    }
    for layer in range(model.layers):
        needed |= decoder(model, layer, hidden, ("input_layernorm", "post_attention_layernorm"))
    tied, optional = tables(source, vocab, hidden)
    block, mask = int(more.pop("block")), int(more.pop("mask_token"))
    if block < 2:
        raise CheckpointError(
            f"{source.folder}: block_size is {block}, a block has 2 tokens or more"
        )
    if not 0 <= mask < source.target.vocab:
        raise CheckpointError(
            f"{source.folder}: mask_token_id is {mask}, the target has {source.target.vocab} tokens"
        )
    return Head(
        kind=kind,  # type: ignore[arg-type]
        dialect=dialect,
        folder=source.folder,
        model=model,
        states=states,
        names=names(source, needed | tied, optional),
        vocab=vocab,
        target=source.target,
        block=block,
        mask_token=mask,
        **more,
    )
