"""The loop: batches, steps, checkpoints, validation.

A run that was killed goes on from its last checkpoint, and ends with the same weights as one that was not.

A run's folder holds `run.json` (settings), `state.safetensors` and `state.json` (the newest checkpoint) and
`log.jsonl` (a line for each validation).
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from drafter.training.features import Features
from drafter.training.methods import Method
from drafter.training.order import epoch, held_out, packed
from drafter.training.rounds import Acceptance, walk, whole

BETAS: Final = (0.9, 0.95)
MOMENTS: Final = ("exp_avg", "exp_avg_sq", "step")
COOL: Final = 0.2
"""The last part of a run, in which the learning rate falls."""


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """`tokens` of the whole run, `batch` of a step; validation and checkpoints come every so many steps."""

    tokens: int = 4_000_000
    batch: int = 1024
    rate: float = 1e-3
    warm_up: int = 50
    clip: float = 1.0
    average: float = 0.998
    validate: int = 200
    save: int = 50
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """Where a run is. `texts` is how many the corpus had when this epoch began."""

    step: int = 0
    tokens: int = 0
    epoch: int = 0
    place: int = 0
    texts: int = 0
    loss: float = math.nan


@dataclass(slots=True)
class Trainer:
    """One run. `weights` are trained, `mean` is their running mean, which is validated and exported."""

    method: Method
    settings: TrainSettings
    folder: Path
    weights: dict[str, Tensor]
    mean: dict[str, Tensor]
    optimiser: torch.optim.AdamW
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def open(cls, method: Method, settings: TrainSettings, folder: Path, device: str) -> "Trainer":
        """A new run, or the one that the folder holds."""
        weights = method.fresh(torch.Generator().manual_seed(settings.seed))
        weights = {name: w.to(device).requires_grad_() for name, w in weights.items()}
        mean = {name: w.detach().clone() for name, w in weights.items()}
        optimiser = torch.optim.AdamW(
            list(weights.values()), lr=0.0, betas=BETAS, weight_decay=0.0, fused=True
        )
        trainer = cls(method, settings, folder, weights, mean, optimiser)
        if (folder / "state.json").is_file():
            trainer.load()
        return trainer

    def run(self, features: Callable[[], Features]) -> Iterator[Progress]:
        """Train; a new epoch begins with the corpus as it is by then."""
        now = self.progress
        while now.tokens < self.settings.tokens:
            found = features()
            now.texts = now.texts or len(found.lines)
            lengths = [len(line.ids) for line in found.lines[: now.texts]]
            batches = epoch(lengths, self.settings.batch, f"{self.settings.seed}/{now.epoch}")
            for chosen in batches[now.place :]:
                self._step(found, chosen)
                now.place += 1
                if now.step % self.settings.validate == 0:
                    self.note(self.validate(found))
                if now.step % self.settings.save == 0:
                    self.save()
                yield now
                if now.tokens >= self.settings.tokens:
                    break
            else:
                now.epoch, now.place, now.texts = now.epoch + 1, 0, 0
        self.save()

    def _step(self, features: Features, chosen: Sequence[int]) -> None:
        now = self.progress
        batch = features.batch(chosen)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate * self._rate()
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + now.step)
        loss = self.method.loss(self.weights, batch, generator)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.clip)
        self.optimiser.step()
        now.step += 1
        now.tokens += batch.tokens
        now.loss = float(loss.detach())
        share = max(1 - self.settings.average, 1 / (1 + now.step / 5))
        with torch.no_grad():
            for name, w in self.weights.items():
                self.mean[name].lerp_(w, share)

    def _rate(self) -> float:
        """The part of the learning rate that is in force: warm-up by steps, a fall by tokens."""
        now, whole_run = self.progress, self.settings.tokens
        warm = min(1.0, (now.step + 1) / max(1, self.settings.warm_up))
        return warm * min(1.0, max(0.02, (1 - now.tokens / whole_run) / COOL))

    def validate(self, features: Features, most: int = 64) -> dict[str, Acceptance]:
        """Acceptance on held-out answers that are the target's likeliest, by set."""
        lines = features.lines
        chosen = [n for n, line in enumerate(lines) if held_out(n) and not line.sampled][:most]
        return accepted(self.method, self.mean, features, chosen, self.settings.batch)

    def note(self, found: Mapping[str, Acceptance]) -> None:
        """A line of the log."""
        total = whole(found.values(), self.method.guesses)
        line = {
            "step": self.progress.step,
            "tokens": self.progress.tokens,
            "loss": self.progress.loss,
            "mean_emitted": total.mean_emitted,
            "by_position": total.by_position,
            "sets": {name: each.mean_emitted for name, each in found.items()},
        }
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def save(self) -> None:
        """A checkpoint, whole or not at all."""
        tensors = {f"weights.{name}": w.detach() for name, w in self.weights.items()}
        tensors |= {f"mean.{name}": w for name, w in self.mean.items()}
        for name, w in self.weights.items():
            moments = self.optimiser.state.get(w, {})
            tensors |= {f"{part}.{name}": moments[part] for part in MOMENTS if part in moments}
        said = {part: str(value) for part, value in asdict(self.progress).items()}
        new = self.folder / "state.new"
        save_file({n: t.contiguous() for n, t in tensors.items()}, new, metadata=said)
        new.replace(self.folder / "state.safetensors")
        (self.folder / "state.json").write_text(json.dumps(asdict(self.progress)))

    def load(self) -> None:
        """The newest checkpoint; what it says of itself lies in the same file as its tensors."""
        self.progress = progress_of(self.folder)
        tensors = load_file(self.folder / "state.safetensors")
        with torch.no_grad():
            for name, w in self.weights.items():
                w.copy_(tensors[f"weights.{name}"])
                self.mean[name].copy_(tensors[f"mean.{name}"])
                moments: dict[str, Any] = {
                    part: tensors[f"{part}.{name}"].to(w.device)
                    for part in MOMENTS
                    if f"{part}.{name}" in tensors
                }
                if moments:
                    self.optimiser.state[w] = moments


def progress_of(folder: Path) -> Progress:
    """Where the run in a folder is."""
    from safetensors import safe_open  # noqa: PLC0415

    with safe_open(folder / "state.safetensors", framework="pt") as file:
        said = file.metadata()
    return Progress(
        **{name: float(v) if name == "loss" else int(v) for name, v in said.items()}  # type: ignore[arg-type]
    )


def accepted(
    method: Method, w: Mapping[str, Tensor], features: Features, chosen: Sequence[int], tokens: int
) -> dict[str, Acceptance]:
    """Acceptance on these lines, by set."""
    lengths = [len(line.ids) for line in features.lines]
    ordered = sorted(chosen, key=lambda number: lengths[number])
    found: dict[str, Acceptance] = {}
    for numbers in packed(ordered, lengths, tokens):
        right = method.right(w, features.batch(numbers))
        for number, counts in zip(numbers, right, strict=True):
            kind = features.lines[number].kind
            nothing = Acceptance(0, (0,) * method.guesses)
            found[kind] = found.get(kind, nothing) + walk(counts, method.guesses)
    return found
