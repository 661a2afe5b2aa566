"""EAGLE heads: from a token and the state before it to the next state, and from that to a token.

Shapes: T tokens, N of them, F width of a row that travelled, H hidden, U vocabulary of the head.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from drafter.heads.layer import Layer, Place
from drafter.heads.vocabulary import Shared, Vocabulary
from drafter.heads.weights import HeadWeights, projection
from engine.linear import products


class ChainHead:
    """EAGLE-1, -2 and -3. With `projected` rows, the verifier has applied `fc` already."""

    def __init__(self, weights: HeadWeights, target: Shared | None, *, projected: bool) -> None:
        self.head = weights.head
        self.vocabulary = Vocabulary(weights, target)
        self.layers = [Layer(weights, index) for index in range(self.head.shape.layers)]
        self._third = self.head.kind == "eagle3"
        self._eps = self.head.shape.eps
        self._norm_H = weights.get("norm.weight")
        self._state_norm_H = weights.get("layers.0.hidden_norm.weight")
        self._project = (
            None if projected else projection(self.head, weights.dtype, weights.device.name)
        )
        self._join = (
            None
            if self._third
            else products(weights.dtype, weights.device.name).plain(
                weights.read("fc.weight"), weights.get("fc.bias")
            )
        )

    def states(self, rows_NF: Tensor) -> Tensor:
        """What a step is fed with, from rows of the target."""
        return rows_NF if self._project is None else self._project(rows_NF)

    def feed(self, out_NH: Tensor) -> Tensor:
        """The same, from the head's own outputs."""
        return self._normed(out_NH) if self.head.feeds_normed else out_NH

    def forward(
        self, ids_T: Tensor, state_TH: Tensor, place: Place, kv: Sequence[Tensor]
    ) -> Tensor:
        """Outputs [T, H]; row t reads token t+1 beside the state of position t."""
        e_TH = self.vocabulary.embed(ids_T)
        read_TI, x_TH = self._enter(e_TH, state_TH)
        x_TH = self.layers[0](read_TI, x_TH, place, kv[0])
        for layer, kv_PS2KD in zip(self.layers[1:], kv[1:], strict=True):
            assert layer.norm_H is not None
            x_TH = layer(self._rms(x_TH, layer.norm_H), x_TH, place, kv_PS2KD)
        return x_TH

    def logits(self, out_NH: Tensor) -> Tensor:
        """Float32 logits [N, U] of the token after the one that a row read."""
        return self.vocabulary.logits(self._normed(out_NH) if self.head.norms_logits else out_NH)

    def _enter(self, e_TH: Tensor, state_TH: Tensor) -> tuple[Tensor, Tensor]:
        """What the first attention reads, and what it is added to."""
        if self._join is not None:
            joined_TH = self._join(torch.cat((e_TH, state_TH), dim=-1))
            return joined_TH, joined_TH
        first = self.layers[0]
        assert first.norm_H is not None
        assert self._state_norm_H is not None
        normed_TH = self._rms(state_TH, self._state_norm_H)
        read_TI = torch.cat((self._rms(e_TH, first.norm_H), normed_TH), dim=-1)
        return read_TI, normed_TH if self.head.norm_before_residual else state_TH

    def _normed(self, x_NH: Tensor) -> Tensor:
        assert self._norm_H is not None
        return self._rms(x_NH, self._norm_H)

    def _rms(self, x_NH: Tensor, norm_H: Tensor) -> Tensor:
        return rms_norm(x_NH, norm_H.shape, norm_H, self._eps)
