"""DSpark: a block whose every slot guesses the token behind it, a bias from each token to the next, and a confidence.

Shapes: see `drafter.training.block`; R rank of the bias, V vocabulary of the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from drafter.training.arithmetic import Weights, half
from drafter.training.block import Blocks, Shape, Slots, alone, labels, leading, wanted
from drafter.training.features import Batch
from drafter.training.known import Known
from drafter.training.losses import (
    confidence,
    mean,
    slot_weights,
    soft_cross_entropy,
    total_variation,
)
from drafter.training.target import Dense

FROM, TO = "markov_head.markov_w1.weight", "markov_head.markov_w2.weight"
SURE = "confidence_head.proj."


@dataclass(frozen=True, slots=True)
class Settings:
    """How the losses weigh; the absolute difference of distributions is twice their total variation.

    The paper has 0.1 of a hard cross entropy and 0.9 of the difference, whose slope is small where a head knows little.
    """

    surprise: float = 1.0
    difference: float = 0.1
    confidence: float = 1.0
    decay: float = 4.0
    rank: int = 44


class DSpark:
    """See `drafter.training.methods.Method`."""

    kind = "dspark"

    def __init__(
        self,
        target: Dense,
        states: Sequence[int],
        ids_U: Tensor,
        shape: Shape,
        settings: Settings | None = None,
    ) -> None:
        self.blocks = Blocks(target, states, shape)
        self.settings = settings or Settings()
        self.target, self.states, self.ids_U = target, tuple(states), ids_U
        self.guesses = self.blocks.shape.guesses
        self._known = Known.of(target, ids_U)

    def fresh(self, generator: torch.Generator) -> dict[str, Tensor]:
        """The bias begins as nothing; what stands for tokens are the main directions of the target's embedding."""
        rank, H = self.settings.rank, self.target.shape.hidden
        rows_VH = self.target.embedding_VH.float().cpu()
        _, vectors = torch.linalg.eigh(rows_VH.T @ rows_VH)
        tokens_VR = rows_VH @ vectors[:, -rank:]
        return self.blocks.fresh(generator) | {
            FROM: tokens_VR / tokens_VR.std(),
            TO: torch.zeros(len(self.ids_U), rank),
            f"{SURE}weight": torch.zeros(1, H + rank),
            f"{SURE}bias": torch.zeros(1),
        }

    def loss(self, w: Weights, batch: Batch, generator: torch.Generator) -> Tensor:
        """Soft cross entropy, difference of the distributions and confidence, weighted exp(-k / decay)."""
        w = half(w, self.target.dtype)
        slots = self.blocks.slots(w, batch, self.blocks.anchors(batch, generator))
        ids, inside = labels(batch, slots)
        before = embedding(self._before(batch, slots), w[FROM])
        counts = inside & self._known.marks_V[ids]
        logits_NU = self.logits(w, slots.x[counts], before[counts])
        wanted_NU = wanted(self._known, batch, slots, counts)
        variation_N = total_variation(logits_NU, wanted_NU)
        sure_N = self.sure(w, slots.x[counts], before[counts])
        loss_N = (
            self.settings.surprise * soft_cross_entropy(logits_NU, wanted_NU)
            + self.settings.difference * 2 * variation_N
            + self.settings.confidence * confidence(sure_N, variation_N)
        )
        weight = slot_weights(self.guesses, self.settings.decay).to(loss_N).expand(counts.shape)
        return mean(loss_N, weight[counts])

    def logits(self, w: Weights, x: Tensor, before: Tensor) -> Tensor:
        """Of final states by the target's own rows, and of what stands for the tokens before theirs."""
        return (linear(x, self._known.rows_UH) + linear(before, w[TO])).float()

    def sure(self, w: Weights, x: Tensor, before: Tensor) -> Tensor:
        """How sure each guess is, before the sigmoid."""
        joined = torch.cat((x, before), dim=-1)
        return linear(joined, w[f"{SURE}weight"], w[f"{SURE}bias"]).float()[..., 0]

    @torch.no_grad()
    def right(self, w: Weights, batch: Batch) -> list[list[int]]:
        return [leading(good) for good, _ in self.judged(w, batch)]

    @torch.no_grad()
    def judged(self, w: Weights, batch: Batch) -> list[tuple[Tensor, Tensor]]:
        """For each text, of the blocks at all tokens of its answer: which guesses are right, how sure they were."""
        w = half(w, self.target.dtype)
        found: list[tuple[Tensor, Tensor]] = []
        for row, end in enumerate(batch.ends_B.tolist()):
            text = alone(batch, row)
            anchors = torch.arange(int(text.starts_B), end - 1, device=self.target.device)
            slots = self.blocks.slots(w, text, anchors[None])
            ids, inside = labels(text, slots)
            said, sure = self._chain(w, slots.x[0], text.ids_BT[0, anchors])
            found.append(((said == ids[0]) & inside[0], sure))
        return found

    def _chain(self, w: Weights, x_MJH: Tensor, before_M: Tensor) -> tuple[Tensor, Tensor]:
        """Slot after slot, each with the token that was chosen before it."""
        said: list[Tensor] = []
        sure: list[Tensor] = []
        for x_MH in x_MJH.unbind(1):
            before_MR = embedding(before_M, w[FROM])
            before_M = self.ids_U[self.logits(w, x_MH, before_MR).argmax(-1)]
            said.append(before_M)
            sure.append(self.sure(w, x_MH, before_MR))
        return torch.stack(said, 1), torch.stack(sure, 1)

    @staticmethod
    def _before(batch: Batch, slots: Slots) -> Tensor:
        """The tokens that stand before those of the slots."""
        place = (slots.place - 1).clamp(max=batch.ids_BT.shape[1] - 1)
        return batch.ids_BT.gather(1, place.flatten(1)).view_as(place)
