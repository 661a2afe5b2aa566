"""What DFlash and DSpark have in common: blocks at many anchors of a text in one pass.

A block is the anchor's token and masks behind it. Its tokens see each other and what `fc` makes of the target's states
before the anchor, and nothing else.

Shapes: B texts, T tokens, M anchors of each, J slots of a block, Q = M * J, A query heads, K key heads, G = A / K,
D head size, H hidden, N rows, U vocabulary of the head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from drafter.training.arithmetic import Rotary, Weights, heads, mlp, rms
from drafter.training.features import Batch
from drafter.training.known import Known
from drafter.training.looking import SHARP, Attention, Inputs, Near, look, narrowed
from drafter.training.target import Dense, causal

SAMPLES: Final = (8, 256)
"""Texts and tokens of each, of which is learned what states are like."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`layers` of the head, `size` of a block, whether the anchor's slot is a guess too, `anchors` of a text a step.

    MLPs keep the `inner` heaviest of the target's neurons. For `noise`, `calm` and `quiet` see
    `drafter.training.eagle3.Settings`; the target's first layer is not made quiet.
    """

    layers: int = 1
    inner: int = 1280
    size: int = 8
    from_anchor: bool = False
    anchors: int = 64
    mask: int = 0
    noise: float = 0.02
    calm: float = 0.3
    quiet: float = 0.1

    @property
    def guesses(self) -> int:
        return self.size - (not self.from_anchor)


@dataclass(frozen=True, slots=True)
class Slots:
    """Guessing slots of blocks: what the head says of each [B, M, J, H], and where its token stands [B, M, J]."""

    x: Tensor
    place: Tensor


@dataclass(frozen=True, slots=True)
class _Seen:
    """What blocks attend to besides themselves: rows [B, T, H], their own positions [B, Q], and who sees which row."""

    context: Tensor
    places: Tensor
    bias_BQT: Tensor


class Blocks:
    """Blocks for one target."""

    def __init__(self, target: Dense, states: Sequence[int], shape: Shape) -> None:
        self.target, self.states, self.shape = target, tuple(states), shape
        self._rotary = Rotary(target.cos_S1D[:, 0], target.sin_S1D[:, 0])

    def fresh(self, generator: torch.Generator) -> dict[str, Tensor]:
        """The target's last layer, or several spread over it from the first on, with norms for queries and keys.

        Each query head has a key head of its own; those of the first layer begin as `drafter.training.looking` says.
        """
        own, source, shape = self.target.shape, self.target.weights, self.shape
        H, wide = own.hidden, len(self.states) * own.hidden
        fc = shape.noise * torch.randn(H, wide, generator=generator)
        fc[:, -H:] += torch.eye(H)
        w = {
            "fc.weight": fc,
            "hidden_norm.weight": torch.ones(H),
            "norm.weight": shape.calm * source["model.norm.weight"].float(),
        }
        for layer in range(shape.layers):
            steps = shape.layers - 1 - layer
            taken = own.layers - 1 - round(steps * (own.layers - 1) / max(1, shape.layers - 1))
            at = f"model.layers.{taken}."
            for name, tensor in source.items():
                if name.startswith(at):
                    w[f"layers.{layer}.{name.removeprefix(at)}"] = tensor
            for name in ("self_attn.o_proj", "mlp.down_proj") if taken else ():
                w[f"layers.{layer}.{name}.weight"] = shape.quiet * source[f"{at}{name}.weight"]
            for each in "qk":
                w[f"layers.{layer}.self_attn.{each}_norm.weight"] = torch.ones(own.head_dim)
            self._reshape(w, layer, generator)
        return {name: tensor.float().cpu().clone() for name, tensor in w.items()}

    def _reshape(self, w: dict[str, Tensor], layer: int, generator: torch.Generator) -> None:
        """Narrow a layer's MLP and give its query heads keys of their own; those of the first layer learn to look."""
        shape = self.shape
        names = [f"layers.{layer}.mlp.{each}_proj.weight" for each in ("gate", "up", "down")]
        gate, up, down = (w[name] for name in names)
        w |= dict(zip(names, narrowed(gate, up, down, shape.inner), strict=True))
        names = [f"layers.{layer}.self_attn.{each}_proj.weight" for each in "qkvo"]
        q, k, v, o = (w[name] for name in names)
        attention = Attention.of(q, k, v, o, self.target.shape.head_dim)
        if layer == 0:
            look(attention, self._inputs(w, generator), self._near(), generator, shape.noise)
            w["layers.0.self_attn.q_norm.weight"] *= SHARP
        w |= dict(zip(names, attention.matrices(), strict=True))

    def _near(self) -> Near:
        cos, sin = (each.float().cpu() for each in (self._rotary.cos, self._rotary.sin))
        return Near.find(Rotary(cos, sin), self.shape.size)

    def _inputs(self, w: Weights, generator: torch.Generator) -> Inputs:
        """What the first layer will read, of tokens drawn at random."""
        target, mask = self.target, self.shape.mask
        B, T = SAMPLES
        ids_BT = torch.randint(target.shape.vocab, SAMPLES, generator=generator)
        at_BT = torch.arange(T, device=target.device).expand(B, -1)
        _, seen = target.forward(ids_BT.to(target.device), at_BT, causal, self.states)
        states = torch.cat([seen[state] for state in self.states], -1).flatten(0, 1).float().cpu()
        embedded = target.embedding_VH.float().cpu()
        norm, eps = w["layers.0.input_layernorm.weight"].float().cpu(), target.shape.eps
        return Inputs(
            rms(states @ w["fc.weight"].T, w["hidden_norm.weight"], eps),
            rms(torch.cat((embedded[:mask], embedded[mask + 1 :])), norm, eps),
            rms(embedded[mask], norm, eps),
        )

    def slots(self, w: Weights, batch: Batch, anchors_BM: Tensor) -> Slots:
        """All blocks at these anchors; `w` are in the dtype of the arithmetic."""
        size, eps = self.shape.size, self.target.shape.eps
        context = linear(batch.states_BTS.to(self.target.dtype), w["fc.weight"])
        context = rms(context, w["hidden_norm.weight"], eps)
        at_BQ = (anchors_BM[..., None] + torch.arange(size, device=anchors_BM.device)).flatten(1)
        ids_BMJ = torch.full((*anchors_BM.shape, size), self.shape.mask, device=anchors_BM.device)
        ids_BMJ[..., 0] = batch.ids_BT.gather(1, anchors_BM)
        x = embedding(ids_BMJ.flatten(1), self.target.embedding_VH)
        at_T = torch.arange(batch.ids_BT.shape[1], device=x.device)
        seen = at_T < anchors_BM.repeat_interleave(size, 1)[..., None]
        bias_BQT = torch.zeros(seen.shape, device=x.device).masked_fill_(~seen, -torch.inf)
        turned = at_BQ.clamp(max=len(self._rotary.cos) - 1)
        seen_by = _Seen(context, turned, bias_BQT)
        for layer in range(self.shape.layers):
            x = self._layer(w, f"layers.{layer}.", x, seen_by)
        x = torch.unflatten(rms(x, w["norm.weight"], eps), 1, (-1, size))
        place = torch.unflatten(at_BQ, 1, (-1, size))
        first = size - self.shape.guesses
        return Slots(x[:, :, first:], place[:, :, first:] + (1 - first))

    def _layer(self, w: Weights, at: str, x: Tensor, seen_by: "_Seen") -> Tensor:
        own, context, places = self.target.shape, seen_by.context, seen_by.places
        read = rms(x, w[f"{at}input_layernorm.weight"], own.eps)
        q = self._turned(w, f"{at}self_attn.q", read, places)
        own_k = self._turned(w, f"{at}self_attn.k", read, places)
        own_v = heads(w, f"{at}self_attn.v", read, own.head_dim)
        at_T = torch.arange(context.shape[1], device=x.device)
        k = self._turned(w, f"{at}self_attn.k", context, at_T)
        v = heads(w, f"{at}self_attn.v", context, own.head_dim)
        seen = attention(q, (k, v), (own_k, own_v), seen_by.bias_BQT, self.shape.size)
        return mlp(w, at, x + linear(seen, w[f"{at}self_attn.o_proj.weight"]), own.eps)

    def _turned(self, w: Weights, name: str, x: Tensor, places: Tensor) -> Tensor:
        """Normed heads at their positions."""
        normed = rms(
            heads(w, name, x, self.target.shape.head_dim),
            w[f"{name}_norm.weight"],
            self.target.shape.eps,
        )
        return self._rotary.turn(normed, places)

    def anchors(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """Random places of answers [B, M] behind which the text goes on."""
        room_B1 = (batch.ends_B - 1 - batch.starts_B).clamp(min=1)[:, None].cpu()
        drawn = torch.rand(len(room_B1), self.shape.anchors, generator=generator) * room_B1
        return batch.starts_B[:, None] + drawn.long().to(batch.ids_BT.device)


Pair = tuple[Tensor, Tensor]
"""Keys and values [B, tokens, K, D]."""


def attention(q_BQAD: Tensor, context: Pair, own: Pair, bias_BQT: Tensor, size: int) -> Tensor:
    """Outputs [B, Q, A * D] of blocks of `size`, each over the context and itself."""
    B, Q, A, D = q_BQAD.shape
    K = own[0].shape[2]
    k, v = (each.transpose(1, 2) for each in context)
    own_k, own_v = (torch.unflatten(each.transpose(1, 2), 2, (-1, size)) for each in own)
    q_BKGQD = (q_BQAD * D**-0.5).view(B, Q, K, A // K, D).permute(0, 2, 3, 1, 4)
    far = (q_BKGQD.flatten(2, 3) @ k.transpose(2, 3)).view(B, K, A // K, Q, -1)
    q_BKGMJD = torch.unflatten(q_BKGQD, 3, (-1, size))
    near = q_BKGMJD @ own_k[:, :, None].transpose(-1, -2)
    T = far.shape[-1]
    scores = torch.cat((far.float() + bias_BQT[:, None, None], near.flatten(3, 4).float()), dim=-1)
    weights = scores.softmax(-1).to(q_BQAD.dtype)
    out = (weights[..., :T].flatten(2, 3) @ v).view(B, K, A // K, Q, D)
    blocks = torch.unflatten(weights[..., T:], 3, (-1, size)) @ own_v[:, :, None]
    out = out + blocks.flatten(3, 4)
    return out.permute(0, 3, 1, 2, 4).reshape(B, Q, A * D)


def wanted(known: Known, batch: Batch, slots: Slots, counts_BMJ: Tensor) -> Tensor:
    """The target's distributions [N, U] over the tokens that a head knows, for the slots that count."""
    texts = torch.arange(len(batch.ids_BT), device=counts_BMJ.device)[:, None, None]
    at_N = slots.place[counts_BMJ] - 1
    final_NH = batch.final_BTH[texts.expand(counts_BMJ.shape)[counts_BMJ], at_N]
    return linear(final_NH.to(known.rows_UH.dtype), known.rows_UH).float().softmax(-1)


def labels(batch: Batch, slots: Slots) -> tuple[Tensor, Tensor]:
    """The token of each slot [B, M, J], and whether the text still has one there."""
    inside = slots.place < batch.ends_B[:, None, None]
    place = slots.place.clamp(max=batch.ids_BT.shape[1] - 1)
    return batch.ids_BT.gather(1, place.flatten(1)).view_as(place), inside


def alone(batch: Batch, row: int) -> Batch:
    """One text of a batch, without padding."""
    end = int(batch.ends_B[row])
    part = slice(row, row + 1)
    return Batch(
        batch.ids_BT[part, :end],
        batch.starts_B[part],
        batch.ends_B[part],
        batch.states_BTS[part, :end],
        batch.final_BTH[part, :end],
    )


def leading(good_MJ: Tensor) -> list[int]:
    """How many guesses of each block are right before the first wrong."""
    counts: list[int] = good_MJ.long().cumprod(-1).sum(-1).tolist()
    return counts
