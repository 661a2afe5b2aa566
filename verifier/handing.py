"""The target's pages as they are handed over: their layout, and their memory as bytes.

Both are views of what the engine computes in: nothing is copied until a chunk is made or written.
"""

import hashlib
import json

import torch
from torch import Tensor

from engine.runner import Engine
from kvtransfer.layout import Layer, Layout
from kvtransfer.memory import Bytes, Pages


def layout_of(engine: Engine, weights: str) -> Layout:
    """What another node's pages must fit. `weights` is the fingerprint of the target's."""
    model, config = engine.model, engine.config
    heads = model.kv_heads
    target = Layer("target", config.kv_numbers, heads, model.head_dim, 0, heads)
    layers = [target] * model.layers
    drafter = ""
    if engine.features is not None:
        rows = engine.features.rows_QF
        dtype = str(rows.dtype).removeprefix("torch.")
        layers.append(Layer("features", dtype, 1, rows.shape[1], 0, 1, parts=1))
        drafter = engine.features.text
    said = json.dumps(dict(model.rope), sort_keys=True, default=str)
    rope = hashlib.sha256(said.encode()).hexdigest()[:16]
    return Layout(tuple(layers), config.page_size, "slots", rope, weights, drafter=drafter)


def pages_of(engine: Engine, layout: Layout) -> Pages:
    """The engine's memory, in the order of the layers of its layout."""
    memory = list(engine.kv)
    if engine.features is not None:
        memory.append(engine.features.rows_QF)
    return Pages(layout, [_bytes(each) for each in memory])


def _bytes(tensor: Tensor) -> Bytes:
    data: Bytes = tensor.view(torch.uint8).numpy().reshape(-1)
    return data
