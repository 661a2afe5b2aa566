"""Tiny heads that learn one text by heart, in the dense arithmetic of `tests/drafter/dense.py`.

What they learn from is made by `transformers`: the states that its layers leave, and the text that it says.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from tests.drafter import dense

Weights = dict[str, Tensor]
MASK: Final = 4


def states_of(model: Any, line: Sequence[int]) -> list[Tensor]:  # noqa: ANN401
    """States [T, H] of a text: the embedding, what each layer left, and what the last norm made of that."""
    left: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _module, _inputs, out: left.append(out[0]))
        for layer in model.model.layers
    ]
    with torch.no_grad():
        model.model(torch.tensor([list(line)]))
    for hook in hooks:
        hook.remove()
    left = [each if each.dim() == 2 else each[0] for each in left]
    ids = torch.tensor(list(line))
    return [model.model.embed_tokens(ids).detach(), *left, model.model.norm(left[-1]).detach()]


def read(folder: Path, target: Path) -> Weights:
    """The tensors of a head, and those of its target where it has none."""
    embedding = load_file(target / "model.safetensors")["model.embed_tokens.weight"]
    own = {
        name.replace("midlayer.", "layers.0."): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    return {"embed_tokens.weight": embedding, "lm_head.weight": embedding, **own}


def learn(folder: Path, w: Weights, loss: Callable[[Weights], Tensor], steps: int) -> None:
    """Train what the checkpoint holds, but no map and nothing of the target's, and write it back."""
    stored = load_file(folder / "model.safetensors")
    names = {name.replace("midlayer.", "layers.0."): name for name in stored}
    trained = [
        name for name in names if w[name].is_floating_point() and name != "embed_tokens.weight"
    ]
    for name in trained:
        w[name].requires_grad_()
    optimiser = torch.optim.Adam([w[name] for name in trained], lr=5e-3)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=1e-4)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.autograd.backward(loss(w))
        optimiser.step()
        slower.step()
    for name in trained:
        stored[names[name]] = w[name].detach()
    save_file(stored, folder / "model.safetensors")


def chain_loss(
    line: Sequence[int], rows: Tensor, first: int, *, third: bool, shift: int
) -> Callable[[Weights], Tensor]:
    """Row t says token t+2 and what the state of t+1 will be, from position `first` on; labels are off by `shift`."""
    ids = torch.tensor(list(line))
    generator = torch.Generator().manual_seed(0)

    def loss(w: Weights) -> Tensor:
        states = rows @ w["fc.weight"].detach().T if third else rows
        noise = 0.3 * torch.randn(
            states[:-2].shape, generator=generator
        )  # its own will not be exact
        out = dense.chain(w, ids[1:-1], states[:-2] + noise, third=third)
        last = dense.rms(out, w["norm.weight"]) if third else out
        logits = last @ w["lm_head.weight"].T
        wanted, start = ids[2:].roll(-shift), max(0, first - 2)
        end = len(wanted) - shift
        return cross_entropy(logits[start:end], wanted[start:end]) + 10 * mse_loss(
            out[start:], states[1:-1][start:]
        )

    return loss


def block_loss(
    line: Sequence[int], rows: Tensor, first: int, *, size: int, from_anchor: bool, shift: int
) -> Callable[[Weights], Tensor]:
    """Blocks at every anchor from `first` on, each over the context before it; the bias sees the true tokens."""
    ids = torch.tensor(list(line))
    anchors = torch.arange(first, len(line) - size - shift)
    where = (anchors[:, None] + torch.arange(size)).flatten()
    noise = torch.full_like(where, MASK)
    noise[::size] = ids[anchors]
    owner = torch.arange(len(anchors)).repeat_interleave(size)
    seen = torch.arange(len(line))[None] < anchors[owner][:, None]
    mask = torch.cat((seen, owner[:, None] == owner[None]), dim=1)
    positions = torch.cat((torch.arange(len(line)), where))

    def loss(w: Weights) -> Tensor:
        context = dense.rms(rows @ w["fc.weight"].T, w["hidden_norm.weight"])
        x = dense.block(w, noise, context, 2, positions, mask)
        logits = x @ w["lm_head.weight"].T
        labels = ids[where + from_anchor + shift]
        if "markov_head.markov_w1.weight" in w:
            before = w["markov_head.markov_w1.weight"][ids[where + from_anchor - 1]]
            logits = logits + before @ w["markov_head.markov_w2.weight"].T
        slots = torch.arange(len(where)) % size >= (not from_anchor)
        return cross_entropy(logits[slots], labels[slots])

    return loss


def frozen_matrices(w: Mapping[str, Tensor]) -> Weights:
    """A copy that may be trained."""
    return {name: tensor.clone() for name, tensor in w.items()}


def chained(
    w: Mapping[str, Tensor], line: Sequence[int], rows: Tensor, want: int, **how: bool
) -> list[int]:
    """The chain by computing everything anew for each guess; `how`: which norms, and what steps are fed with."""
    third, normed = how["third"], how.get("norms", how["third"])
    states = rows @ w["fc.weight"].T if third else rows
    text = list(line)
    for _ in range(want):
        residual = how.get("residual_normed", False)
        ids = torch.tensor(text[1:])
        out = dense.chain(w, ids, states, third=third, residual_normed=residual)[-1:]
        last = dense.rms(out, w["norm.weight"]) if normed else out
        text.append(best(w, last @ w["lm_head.weight"].T))
        states = torch.cat((states, last if how.get("feed_normed") else out))
    return text[len(line) :]


def blocked(
    w: Mapping[str, Tensor], line: Sequence[int], rows: Tensor, size: int, *, from_anchor: bool
) -> list[int]:
    """The block behind a text, slot after slot where there is a bias."""
    context = dense.rms(rows @ w["fc.weight"].T, w["hidden_norm.weight"])
    layers = len({name.split(".")[1] for name in w if name.startswith("layers.")})
    x = dense.block(w, torch.tensor([line[-1], *[MASK] * (size - 1)]), context, layers)
    tokens: list[int] = []
    for state in x[0 if from_anchor else 1 :]:
        logits = w["lm_head.weight"] @ state
        if "markov_head.markov_w1.weight" in w:
            before = tokens[-1] if tokens else line[-1]
            logits = (
                logits
                + w["markov_head.markov_w2.weight"] @ w["markov_head.markov_w1.weight"][before]
            )
        tokens.append(best(w, logits))
    return tokens


def best(w: Mapping[str, Tensor], logits: Tensor) -> int:
    """The likeliest token, of the target's vocabulary."""
    token = int(logits.argmax())
    return token + int(w["d2t"][token]) if "d2t" in w else token
