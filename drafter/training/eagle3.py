"""EAGLE-3: training-time test. Row t reads token t+1 beside the target's states of t, and says token t+2; then it is
fed with what it made, as when it serves.

Shapes: B texts, T rows, H hidden, A query heads, K key heads, G = A / K, D head size, U vocabulary of the head, N rows
that count.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear

from drafter.training.arithmetic import Rotary, Weights, half, heads, mlp, rms
from drafter.training.features import Batch, answer_rows
from drafter.training.known import Known
from drafter.training.losses import fused_cross_entropy, step_weights
from drafter.training.target import Dense

AT = "layers.0."


@dataclass(frozen=True, slots=True)
class Settings:
    """`steps` a row is trained for, each weighing `decay` times the one before; `guesses` a round is validated with.

    New weights are drawn with this `noise`, and the last norm is multiplied by `calm`: what was the target's last
    layer is sure of the token that it would say, which is the one before the one that is wanted. What the layer adds
    is multiplied by `quiet`: the target's last layer adds more to its residuals than these hold here.
    """

    steps: int = 3
    decay: float = 0.8
    guesses: int = 4
    noise: float = 0.02
    calm: float = 0.3
    quiet: float = 0.1


class Eagle3:
    """See `drafter.training.methods.Method`."""

    kind = "eagle3"

    def __init__(
        self, target: Dense, states: Sequence[int], ids_U: Tensor, settings: Settings | None = None
    ) -> None:
        self.target, self.states, self.ids_U = target, tuple(states), ids_U
        self.settings = settings or Settings()
        self.guesses = self.settings.guesses
        self.shape = target.shape
        self._rotary = Rotary(target.cos_S1D[:, 0], target.sin_S1D[:, 0])
        self._known = Known.of(target, ids_U)

    def fresh(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Weights to begin with: the target's last layer, which reads states; what it reads of tokens is random."""
        H, last = self.shape.hidden, f"model.layers.{self.shape.layers - 1}."
        source = self.target.weights

        def noise(*sizes: int) -> Tensor:
            return self.settings.noise * torch.randn(sizes, generator=generator)

        w = {
            "fc.weight": noise(H, len(self.states) * H),
            "norm.weight": self.settings.calm * source["model.norm.weight"].float(),
        }
        w["fc.weight"][:, -H:] += torch.eye(H)
        w |= {f"fc_norm.{part}.weight": torch.ones(H) for part in range(len(self.states))}
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[f"{AT}{name}.weight"] = source[f"{last}{name}.weight"]
        w[f"{AT}hidden_norm.weight"] = source[f"{last}input_layernorm.weight"]
        w[f"{AT}input_layernorm.weight"] = source["model.layers.0.input_layernorm.weight"]
        for each in "qkv":
            own = source[f"{last}self_attn.{each}_proj.weight"].float().cpu()
            w[f"{AT}self_attn.{each}_proj.weight"] = torch.cat((noise(*own.shape), own), 1)
        for name in ("mlp.gate_proj", "mlp.up_proj"):
            w[f"{AT}{name}.weight"] = source[f"{last}{name}.weight"]
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            added = source[f"{last}{name}.weight"].float()
            w[f"{AT}{name}.weight"] = self.settings.quiet * added
        w["lm_head.weight"] = self._known.rows_UH
        return {name: tensor.float().cpu().clone() for name, tensor in w.items()}

    def loss(self, w: Weights, batch: Batch, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        """The weighted sum of the steps' soft cross entropies."""
        steps = self.settings.steps
        w = half(w, self.target.dtype)
        weights = step_weights(steps, self.settings.decay)
        total = torch.zeros((), device=self.target.device)

        def told(step: int, _: Tensor) -> Tensor:
            return shifted(batch.ids_BT, step + 2)

        for step, out_BTH in enumerate(self.unroll(w, batch, steps, told)):
            wanted_BT = answer_rows(batch, 1, step + 2) & self._known.marks_V[told(step, out_BTH)]
            final_NH = shifted(batch.final_BTH, step + 1)[wanted_BT].to(out_BTH.dtype)
            x_NH = rms(out_BTH[wanted_BT], w["norm.weight"], self.shape.eps)
            summed = fused_cross_entropy(x_NH, w["lm_head.weight"], final_NH, self._known.rows_UH)
            total = total + weights[step] * summed / max(1, len(x_NH))
        return total

    @torch.no_grad()
    def right(self, w: Weights, batch: Batch) -> list[list[int]]:
        """For each text, behind each token of its answer but the last: right guesses before a wrong one."""
        w = half(w, self.target.dtype)
        chosen: list[Tensor] = []

        def own(step: int, _: Tensor) -> Tensor:
            return chosen[step]

        for out_BTH in self.unroll(w, batch, self.guesses, own):
            chosen.append(self.ids_U[self.logits(w, out_BTH).argmax(-1)])  # noqa: PERF401  # read while it grows
        good = torch.ones_like(batch.ids_BT, dtype=torch.bool)
        count_BT = torch.zeros_like(batch.ids_BT)
        for step, tokens_BT in enumerate(chosen):
            good &= (tokens_BT == shifted(batch.ids_BT, step + 2)) & answer_rows(batch, 1, step + 2)
            count_BT += good
        return [
            count[start - 1 : end - 2].tolist()
            for count, start, end in zip(
                count_BT, batch.starts_B.tolist(), batch.ends_B.tolist(), strict=True
            )
        ]

    def logits(self, w: Weights, out: Tensor) -> Tensor:
        return linear(rms(out, w["norm.weight"], self.shape.eps), w["lm_head.weight"]).float()

    def unroll(
        self, w: Weights, batch: Batch, steps: int, feed: Callable[[int, Tensor], Tensor]
    ) -> Iterator[Tensor]:
        """Outputs [B, T, H] of each step; `feed` says the tokens that the next step reads.

        Queries of a step see the first step's keys of rows up to their own, and of later steps their own row's.
        """
        parts = batch.states_BTS.to(self.target.dtype).chunk(len(self.states), dim=-1)
        normed = [
            rms(part, w[f"fc_norm.{index}.weight"], self.shape.eps)
            for index, part in enumerate(parts)
        ]
        state = linear(torch.cat(normed, dim=-1), w["fc.weight"])
        ids_BT = shifted(batch.ids_BT, 1)
        T = ids_BT.shape[1]
        at_T = torch.arange(T, device=ids_BT.device)
        mask = torch.full((T, T), -torch.inf, device=ids_BT.device).triu(1)
        keys: list[tuple[Tensor, Tensor]] = []
        eps, D = self.shape.eps, self.shape.head_dim
        for step in range(steps):
            e = rms(
                embedding(ids_BT, self.target.embedding_VH), w[f"{AT}input_layernorm.weight"], eps
            )
            read = torch.cat((e, rms(state, w[f"{AT}hidden_norm.weight"], eps)), dim=-1)
            q, k, v = (heads(w, f"{AT}self_attn.{each}", read, D) for each in "qkv")
            at = (at_T + step).clamp(max=len(self._rotary.cos) - 1)
            keys.append((self._rotary.turn(k, at), v))
            seen = attention(self._rotary.turn(q, at), keys, mask)
            state = mlp(w, AT, state + linear(seen, w[f"{AT}self_attn.o_proj.weight"]), eps)
            yield state
            if step + 1 < steps:
                ids_BT = feed(step, state)


def attention(q_BTAD: Tensor, keys: Sequence[tuple[Tensor, Tensor]], mask_TT: Tensor) -> Tensor:
    """Outputs [B, T, A * D]; see `Eagle3.unroll`."""
    B, T, A, D = q_BTAD.shape
    first_k, first_v = (each.transpose(1, 2) for each in keys[0])
    K = first_k.shape[1]
    q_BKGTD = (q_BTAD * D**-0.5).view(B, T, K, A // K, D).permute(0, 2, 3, 1, 4)
    scores = (q_BKGTD.flatten(2, 3) @ first_k.transpose(2, 3)).view(B, K, A // K, T, T)
    later = [(q_BKGTD * k.transpose(1, 2)[:, :, None]).sum(-1, keepdim=True) for k, _ in keys[1:]]
    weights = torch.cat((scores.float() + mask_TT, *later), dim=-1).softmax(-1).to(q_BTAD.dtype)
    out = (weights[..., :T].flatten(2, 3) @ first_v).view(B, K, A // K, T, D)
    for index, (_, v) in enumerate(keys[1:]):
        out = out + weights[..., T + index, None] * v.transpose(1, 2)[:, :, None]
    return out.permute(0, 3, 1, 2, 4).reshape(B, T, A * D)


def shifted(x: Tensor, by: int) -> Tensor:
    """What stands `by` places later; at the end anything."""
    return x.roll(-by, 1)
