"""Draft heads in dense arithmetic, one text at a time, none of our engine: what the paged ones must agree with.

`w` holds the tensors under the names of `speculators`; a text's rows are given whole.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

W = Mapping[str, Tensor]
HEADS, SIZE, EPS, THETA = 4, 16, 1e-5, 10000.0


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def turned(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding of [T, heads, 16]."""
    angles = positions[:, None] / THETA ** (torch.arange(0, SIZE, 2) / SIZE)
    cos, sin = (torch.cat((f(angles), f(angles)), -1)[:, None] for f in (torch.cos, torch.sin))
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def attention(
    w: W, at: str, read: Tensor, positions: Tensor, mask: Tensor, keys: Tensor | None = None
) -> Tensor:
    """Of `read` over `keys` (rows that bypass every norm) and itself; `mask` [queries, all keys] is true where seen."""
    whole = read if keys is None else torch.cat((keys, read))
    q, k, v = (
        x @ w[f"{at}self_attn.{n}_proj.weight"].T
        for x, n in ((read, "q"), (whole, "k"), (whole, "v"))
    )
    q, k, v = (each.view(len(each), -1, SIZE) for each in (q, k, v))
    if f"{at}self_attn.q_norm.weight" in w:
        q, k = rms(q, w[f"{at}self_attn.q_norm.weight"]), rms(k, w[f"{at}self_attn.k_norm.weight"])
    q, k = turned(q, positions[-len(read) :]), turned(k, positions)
    k, v = (each.repeat_interleave(HEADS // each.shape[1], 1) for each in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / SIZE**0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, v).flatten(1) @ w[f"{at}self_attn.o_proj.weight"].T


def mlp(w: W, at: str, x: Tensor) -> Tensor:
    y = rms(x, w[f"{at}post_attention_layernorm.weight"])
    inner = torch.nn.functional.silu(y @ w[f"{at}mlp.gate_proj.weight"].T) * (
        y @ w[f"{at}mlp.up_proj.weight"].T
    )
    return x + inner @ w[f"{at}mlp.down_proj.weight"].T


def chain(
    w: W, ids: Tensor, states: Tensor, *, third: bool, residual_normed: bool = False
) -> Tensor:
    """Outputs [T, H] of an EAGLE head that reads token t+1 (`ids`) beside state t."""
    e, at = w["embed_tokens.weight"][ids], "layers.0."
    if third:
        g = rms(states, w[f"{at}hidden_norm.weight"])
        read, x = (
            torch.cat((rms(e, w[f"{at}input_layernorm.weight"]), g), -1),
            g if residual_normed else states,
        )
    else:
        read = x = torch.cat((e, states), -1) @ w["fc.weight"].T + w.get("fc.bias", torch.zeros(()))
    causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    return mlp(w, at, x + attention(w, at, read, torch.arange(len(ids)), causal))


def block(
    w: W,
    ids: Tensor,
    context: Tensor,
    layers: int,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Final states of a block behind `context` [n, H] (after fc and its norm), or of several kept apart by a mask."""
    x = w["embed_tokens.weight"][ids]
    positions = torch.arange(len(context) + len(ids)) if positions is None else positions
    mask = torch.ones(len(ids), len(positions), dtype=torch.bool) if mask is None else mask
    for at in (f"layers.{layer}." for layer in range(layers)):
        x = mlp(
            w,
            at,
            x
            + attention(w, at, rms(x, w[f"{at}input_layernorm.weight"]), positions, mask, context),
        )
    return rms(x, w["norm.weight"])
