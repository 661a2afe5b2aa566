"""What the `speculators` library computes for a checkpoint folder. It runs in an environment that has that library.

`python speculators_logits.py HEAD INPUTS OUT`: INPUTS holds `ids` [T] and `rows` [T, C]. For a chain, row t is token t
and the states before it; for a block, the rows before `anchor` are its context, and the ids from there on its tokens.
OUT holds what came of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from speculators.models.dflash.config import DFlashSpeculatorConfig
from speculators.models.dflash.core import DFlashDraftModel
from speculators.models.dspark.config import DSparkSpeculatorConfig
from speculators.models.dspark.core import DSparkDraftModel
from speculators.models.eagle3.config import Eagle3SpeculatorConfig
from speculators.models.eagle3.core import Eagle3DraftModel
from torch import Tensor

KINDS: dict[str, tuple[Any, Any]] = {
    "eagle3": (Eagle3SpeculatorConfig, Eagle3DraftModel),
    "dflash": (DFlashSpeculatorConfig, DFlashDraftModel),
    "dspark": (DSparkSpeculatorConfig, DSparkDraftModel),
}


def load(folder: Path, shared: dict[str, Tensor]) -> Any:  # noqa: ANN401
    """The library's own model with exactly the published tensors; what it takes from its target comes from `shared`."""
    said = json.loads((folder / "config.json").read_text())
    config_class, model_class = KINDS[said["speculators_model_type"]]
    config = config_class(**said)
    config.transformer_layer_config._attn_implementation = "eager"
    model = model_class(config).eval()
    tensors = load_file(folder / "model.safetensors")
    for name in ("embed_tokens.weight", "lm_head.weight"):
        tensors.setdefault(name, shared[name])
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected, unexpected
    assert all(name.startswith("verifier_") for name in missing), missing
    return model


def chain(model: Any, ids: Tensor, rows: Tensor) -> dict[str, Tensor]:  # noqa: ANN401
    """Logits of two steps: on the target's states, then on its own, after tokens that are shifted in."""
    seen: list[Tensor] = []
    model.lm_head.register_forward_hook(lambda _module, _inputs, logits: seen.append(logits[0]))
    model(rows[None], ids[None], torch.zeros(1, len(ids), dtype=torch.long), ttt_steps=2)
    return {"first": seen[0], "second": seen[1]}


def block(model: Any, ids: Tensor, rows: Tensor, anchor: int) -> dict[str, Tensor]:  # noqa: ANN401
    """Logits of every slot of the block at `anchor`, with the bias of the tokens before them, and confidences."""
    length = len(ids)
    mask = torch.zeros(1, length)
    mask[0, anchor] = 1.0
    last = torch.zeros(1, length, model.hidden_size)
    hidden, logits, *_ = model._backbone_forward(
        rows[None], ids[None], mask, last, torch.zeros(1, length, dtype=torch.long), max_anchors=1
    )
    out = {"logits": logits[0]}
    if getattr(model, "markov_head", None) is not None:
        before = ids[None, anchor : anchor + model.block_size]
        e = model.markov_head.prev_embeddings(before)
        out["logits"] = (
            logits[0] + model.markov_head.block_bias(prev_token_ids=before, hidden_states=hidden)[0]
        )
        out["confidence"] = model.confidence_head(torch.cat((hidden, e), -1))[0].sigmoid()
    return out


def main() -> None:
    folder, inputs, out = map(Path, sys.argv[1:4])
    given = load_file(inputs)
    shared = {name: given[name] for name in ("embed_tokens.weight", "lm_head.weight")}
    with torch.no_grad():
        model = load(folder, shared)
        kind = json.loads((folder / "config.json").read_text())["speculators_model_type"]
        if kind == "eagle3":
            result = chain(model, given["ids"], given["rows"])
        else:
            result = block(model, given["ids"], given["rows"], int(given["anchor"]))
    save_file({name: tensor.contiguous() for name, tensor in result.items()}, out)


if __name__ == "__main__":
    main()
