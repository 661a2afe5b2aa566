"""Between tokens and numbers: a head's embedding and output matrix, and what is drawn from its logits.

Shapes: T tokens, N places where a token is drawn, H hidden, V vocabulary of the target, U that of the head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from drafter.checkpoints import CheckpointError
from drafter.heads.weights import HeadWeights
from drafter.mirror import Mirror
from engine.linear import products
from engine.philox import Role, uniforms
from engine.sampling import SamplingParams, sample, transform

Shared = tuple[Tensor, Tensor]
"""Embedding and output matrix [V, H] of the target."""
_SOFT: Final = SamplingParams(temperature=1.0)


@dataclass(frozen=True, slots=True)
class Place:
    """A token is to be drawn for this position of prompt and output."""

    mirror: Mirror
    position: int


class Vocabulary:
    """The head's own matrices, or those of its target where it has none."""

    def __init__(self, weights: HeadWeights, target: Shared | None) -> None:
        self._size = weights.head.target.vocab
        own = weights.get("embed_tokens.weight")
        if own is None and target is None:
            raise CheckpointError(f"{weights.head.folder} has no embedding: `target` must be known")
        self.embedding_VH = target[0].to(weights.dtype) if own is None and target else own
        head = weights.get("lm_head.weight")
        if head is None and target is None:
            raise CheckpointError(f"{weights.head.folder} has no lm_head: `target` must be known")
        head_UH = target[1].to(weights.dtype) if head is None and target else head
        assert head_UH is not None
        self._head = products(weights.dtype).plain(head_UH, None)
        self.ids_U = weights.ids()

    def embed(self, ids_T: Tensor) -> Tensor:
        """Rows of the embedding."""
        assert self.embedding_VH is not None
        return embedding(ids_T, self.embedding_VH)

    def logits(self, x_NH: Tensor) -> Tensor:
        """Float32 logits [N, U]."""
        return self._head(x_NH).float()

    def draw(self, logits_NU: Tensor, places: Sequence[Place]) -> tuple[Tensor, Tensor]:
        """Tokens [N] of the target's vocabulary, and the probability that the head gave each.

        A token is what the target would draw from these logits at its place, so that it is often the same.
        """
        params = [_params(place.mirror) for place in places]
        if all(each.greedy for each in params):  # the maps ascend, so the lowest id of equals stays
            token_N = logits_NU.argmax(-1)
            chance_N = logits_NU.softmax(-1).gather(1, token_N[:, None])[:, 0]
            return self.target_ids(token_N), chance_N
        logits_NV = self._whole(logits_NU)
        uniforms_N = uniforms(
            np.array([each.seed for each in params], np.uint64),
            [place.mirror.choice for place in places],
            [place.position for place in places],
            Role.TARGET,
        )
        token_N = sample(logits_NV, params, uniforms_N)
        soft = [_SOFT if each.greedy else each for each in params]
        return token_N, transform(logits_NV, soft).gather(1, token_N[:, None])[:, 0]

    def target_ids(self, token_N: Tensor) -> Tensor:
        return token_N if self.ids_U is None else self.ids_U[token_N]

    def _whole(self, logits_NU: Tensor) -> Tensor:
        if self.ids_U is None:
            return logits_NU
        logits_NV = torch.full((len(logits_NU), self._size), -torch.inf)
        return logits_NV.index_copy_(1, self.ids_U, logits_NU)


def _params(mirror: Mirror) -> SamplingParams:
    asked = mirror.sampling
    return SamplingParams(
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
        min_p=asked.min_p,
        seed=asked.seed,
    )
