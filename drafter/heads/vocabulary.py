"""Between tokens and numbers: a head's embedding and output matrix, and what is guessed from its logits.

Shapes: T tokens, N places where a token is guessed, H hidden, V vocabulary of the target, U that of the head.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from drafter.checkpoints import CheckpointError
from drafter.guesses import Guess, Place
from drafter.heads import draws
from drafter.heads.drawn import Drawn
from drafter.heads.weights import HeadWeights
from drafter.proposers.guessing import guess
from engine.linear import products
from engine.params import SamplingParams
from protocol.laws import Ids, Law

Shared = tuple[Tensor, Tensor]
"""Embedding and output matrix [V, H] of the target."""


class Vocabulary:
    """The head's own matrices, or those of its target where it has none: rows of the tokens that the head knows."""

    def __init__(self, weights: HeadWeights, target: Shared | None) -> None:
        own = weights.get("embed_tokens.weight")
        if own is None and target is None:
            raise CheckpointError(f"{weights.head.folder} has no embedding: `target` must be known")
        self.embedding_VH = weights.place(target[0]) if own is None and target else own
        head = weights.get("lm_head.weight")
        if head is None and target is None:
            raise CheckpointError(f"{weights.head.folder} has no lm_head: `target` must be known")
        ids_U = weights.ids()
        if head is None and target is not None:
            head = weights.place(target[1] if ids_U is None else target[1][ids_U])
        assert head is not None
        self._head = products(weights.dtype, weights.device.name).plain(head, None)
        self.device = weights.device
        self._ids_U = None if ids_U is None else ids_U.numpy().astype(np.int32)
        self.ids_U = None if ids_U is None else ids_U.to(weights.device.name)

    def embed(self, ids_T: Tensor) -> Tensor:
        """Rows of the embedding."""
        assert self.embedding_VH is not None
        return embedding(ids_T, self.embedding_VH)

    def logits(self, x_NH: Tensor) -> Tensor:
        """Float32 logits [N, U]."""
        return self._head(x_NH).float()

    def draw(self, logits_NU: Tensor, places: Sequence[Place], *, samples: bool) -> Drawn:
        """A guess for each place, of the target's vocabulary (see `drafter.guesses`); the maps ascend."""
        if self.device.kernels:
            asked = draws.Asked.of(places, samples=samples)
            return draws.draw(self.device, logits_NU, asked, ids_U=self.ids_U)
        params = [SamplingParams.of(place.mirror.sampling) for place in places]
        made = guess(logits_NU, places, params, samples=samples)
        known = made if self._ids_U is None else [_said(each, self._ids_U) for each in made]
        return Drawn(torch.tensor([each.token for each in known]), (), lambda _: known)


def _said(made: Guess, ids_U: Ids) -> Guess:
    law = made.law and Law(ids_U[made.law.ids], made.law.values)
    return Guess(int(ids_U[made.token]), made.confidence, law)
