"""Where the heads of a block's first layer look when training begins.

An EAGLE head has the target's newest state in its residual. A block learns of it through attention alone, and what a
slot asks with is the embedding of its token: all masks ask the same. Heads as the target has them look at contents;
after three million tokens the best of them gave that state two fifths of its weight. So here most heads begin as state
heads: whoever asks, they look at the newest state and put a share of it into the residual. The others are token heads:
from a mask they look at the block's own token.

A query or key that is the same for all inputs is a product with a direction along which they agree. Rotary embedding
turns two such constants against each other; these are chosen so that the nearest key has the highest score.

Shapes: N rows, H hidden, A heads, D head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from drafter.training.arithmetic import Rotary

TOKEN_HEADS: Final = 2 / 9
"""This share of the heads."""
SHARP: Final = 1.5
"""What norms of queries begin with."""
FAR: Final = 256
"""States that a block is thought to have before it."""
DECAY: Final = 4.0
"""A mask counts the less the farther it is from the block's token."""
RATE: Final = 0.05
STEPS: Final = 300
SLOW_FROM: Final = 0.45
"""Behind this part of the rotary pairs, fastest first, are those that hardly turn within a block."""
TOKEN_QUERY: Final = 20.0
TOKEN_KEY: Final = 3.0
"""How much the look at the block's token outweighs what its heads had been."""
RIDGE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Inputs:
    """What attention reads: states as `fc` fuses them, embeddings of tokens [N, H] and of the mask [H], normed."""

    states: Tensor
    tokens: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Attention:
    """Projections [A, D, H] with a key head for each query head, and where outputs go [A, D, H]."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor

    @classmethod
    def of(cls, q: Tensor, k: Tensor, v: Tensor, o: Tensor, size: int) -> "Attention":
        """From matrices of a checkpoint; keys that several queries share are repeated."""
        q, k, v = (torch.unflatten(each.float().cpu(), 0, (-1, size)) for each in (q, k, v))
        shared = len(q) // len(k)
        k, v = (each.repeat_interleave(shared, 0) for each in (k, v))
        return cls(q.clone(), k, v, torch.unflatten(o.float().cpu().T, 0, (-1, size)).clone())

    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As a checkpoint has them: q, k, v, o."""
        q, k, v, o = (each.flatten(0, 1) for each in (self.q, self.k, self.v, self.o))
        return q, k, v, o.T


def look(
    heads: Attention, seen: Inputs, near: "Near", generator: torch.Generator, noise: float
) -> None:
    """Make state heads of the last heads and token heads of the first."""
    A, D, H = heads.q.shape
    tokens, mask = seen.tokens, seen.mask[None]
    is_token, is_mask = directions((tokens, mask), ((1, 0), (0, 1)))
    is_state, is_own = directions((seen.states, tokens, mask), ((1, -1, -1), (-1, 1, -1)))
    main_HH = torch.linalg.eigh(torch.cov(seen.states.T))[1].flip(1)
    first = round(A * TOKEN_HEADS)
    query = near.from_token[:, None] * is_token + near.from_mask[:, None] * is_mask
    key = near.key[:, None] * is_state
    for head in range(first, first + min(A - first, H // D)):
        part_HD = main_HH[:, (head - first) * D : (head - first + 1) * D]
        drift = noise * torch.randn(2, D, H, generator=generator) / H**0.5
        heads.q[head], heads.k[head] = query + drift[0], key + drift[1]
        heads.v[head] = heads.o[head] = part_HD.T
    slow = torch.zeros(D)
    slow[int(SLOW_FROM * D // 2) : D // 2] = 1
    heads.q[:first] += TOKEN_QUERY * slow[:, None] * is_mask
    heads.k[:first] += TOKEN_KEY * slow[:, None] * is_own


@dataclass(frozen=True, slots=True)
class Near:
    """Constants [D]: a query of a token and one of a mask, and a key, whose score is the higher the nearer they are."""

    from_token: Tensor
    from_mask: Tensor
    key: Tensor

    @classmethod
    def find(cls, rotary: Rotary, size: int) -> "Near":
        """By descent: what a block's token and its `size` - 1 masks give the newest state is to be the most."""
        D = rotary.cos.shape[-1]
        x_3D = torch.ones(3, D, requires_grad=True)
        weights = torch.exp(-torch.arange(1, size) / DECAY)
        away = torch.arange(1, min(FAR, len(rotary.cos)))
        optimiser = torch.optim.Adam([x_3D], lr=RATE)
        for _ in range(STEPS):
            token, mask, key = (rms_norm(x, (D,)) for x in x_3D)
            turned = rotary.turn(torch.stack((token, mask)).expand(len(away), 2, D), away)
            scores_2L = SHARP * D**-0.5 * (turned @ key).T
            newest = [scores_2L[1, j:].log_softmax(0)[0] for j in range(1, size)]
            gained = scores_2L[0].log_softmax(0)[0] + weights @ torch.stack(newest)
            optimiser.zero_grad()
            torch.autograd.backward(-gained)
            optimiser.step()
        return cls(*x_3D.detach())


def directions(groups: Sequence[Tensor], wanted: Sequence[Sequence[float]]) -> Tensor:
    """Directions [K, H] along which the rows [N, H] of each group agree, by least squares.

    For each is said what products with its rows are to be, group by group; each group weighs alike.
    """
    rows = [group.double() for group in groups]
    square_HH = torch.stack([group.T @ group / len(group) for group in rows]).sum(0)
    square_HH += RIDGE * square_HH.diagonal().mean() * torch.eye(len(square_HH))
    means_GH = torch.stack([group.mean(0) for group in rows])
    wanted_KG = torch.tensor(wanted, dtype=means_GH.dtype)
    found_HK: Tensor = torch.linalg.solve(square_HH, (wanted_KG @ means_GH).T)
    return found_HK.T.float()


def narrowed(gate: Tensor, up: Tensor, down: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The heaviest neurons of an MLP [I, H], [I, H], [H, I]: so many, or all."""
    weight_I = gate.float().norm(dim=1) * up.float().norm(dim=1) * down.float().norm(dim=0)
    kept = weight_I.topk(min(count, len(weight_I))).indices.sort().values
    return gate[kept], up[kept], down[:, kept]
