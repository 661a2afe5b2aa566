"""DFlash: a block is filled in at once; slot j guesses its own position. The target's own output matrix judges it.

Shapes: see `drafter.training.block`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from drafter.training.arithmetic import Weights, half
from drafter.training.block import Blocks, Shape, alone, labels, leading, wanted
from drafter.training.features import Batch
from drafter.training.known import Known
from drafter.training.losses import mean, slot_weights, soft_cross_entropy
from drafter.training.target import Dense


class DFlash:
    """See `drafter.training.methods.Method`. Losses know the tokens of `ids_U` only, guesses are of all."""

    kind = "dflash"
    DECAY = 4.0

    def __init__(self, target: Dense, states: Sequence[int], ids_U: Tensor, shape: Shape) -> None:
        self.blocks = Blocks(target, states, shape)
        self.target, self.states, self.ids_U = target, tuple(states), ids_U
        self.guesses = self.blocks.shape.guesses
        self._known = Known.of(target, ids_U)

    def fresh(self, generator: torch.Generator) -> dict[str, Tensor]:
        return self.blocks.fresh(generator)

    def loss(self, w: Weights, batch: Batch, generator: torch.Generator) -> Tensor:
        """Soft cross entropy, weighted exp(-(j - 1) / decay)."""
        w = half(w, self.target.dtype)
        slots = self.blocks.slots(w, batch, self.blocks.anchors(batch, generator))
        ids, inside = labels(batch, slots)
        counts = inside & self._known.marks_V[ids]
        logits_NU = (slots.x[counts] @ self._known.rows_UH.T).float()
        wanted_NU = wanted(self._known, batch, slots, counts)
        weight = slot_weights(self.guesses, self.DECAY).to(logits_NU).expand(counts.shape)
        return mean(soft_cross_entropy(logits_NU, wanted_NU), weight[counts])

    @torch.no_grad()
    def right(self, w: Weights, batch: Batch) -> list[list[int]]:
        w = half(w, self.target.dtype)
        found: list[list[int]] = []
        for row, end in enumerate(batch.ends_B.tolist()):
            text = alone(batch, row)
            anchors = torch.arange(int(text.starts_B), end - 1, device=self.target.device)
            slots = self.blocks.slots(w, text, anchors[None])
            ids, inside = labels(text, slots)
            x_NH = slots.x[0].flatten(0, 1)
            said = [self.target.head(part).argmax(-1) for part in torch.split(x_NH, 512)]
            good = (torch.cat(said).view_as(ids[0]) == ids[0]) & inside[0]
            found.append(leading(good))
        return found
