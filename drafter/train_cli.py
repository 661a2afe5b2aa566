"""`drafter train`: a draft head for a target, from a corpus of its answers."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

import torch

from drafter.dataset_cli import progress
from drafter.training.corpus import CorpusError, read
from drafter.training.features import Features, Line
from drafter.training.methods import METHODS, Method, states
from drafter.training.order import frequent
from drafter.training.target import Dense
from drafter.training.trainer import Trainer, TrainSettings
from engine.errors import EngineError

USUAL: Final = TrainSettings()
MASK: Final = 16
"""`<empty_output>` of SmolLM2, which no chat holds."""


def main(argv: list[str]) -> None:
    """Begin a run or go on with it; the exit code is 1 when it could not be done."""
    given = _arguments().parse_args(argv)
    try:
        train(given)
    except (CorpusError, EngineError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(1) from error


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("drafter train", description=__doc__)
    parser.add_argument("--method", choices=sorted(METHODS), required=True)
    parser.add_argument("--target", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--dataset", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="a run: a new one, or one to go on with",
    )
    parser.add_argument(
        "--features", type=Path, metavar="DIR", help="keep what the target makes of texts here"
    )
    parser.add_argument("--vocabulary", type=int, default=4096, help="tokens that the head knows")
    parser.add_argument(
        "--mask-token",
        type=int,
        default=MASK,
        help="stands for a guess in blocks: a token that no text holds",
    )
    parser.add_argument("--device", default="cpu", help="cpu, or one GPU: cuda")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    for each in fields(TrainSettings):
        kind = type(getattr(USUAL, each.name))
        option = f"--{each.name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=getattr(USUAL, each.name))
    return parser


def train(given: argparse.Namespace) -> None:
    """See `main`."""
    torch.set_num_threads(given.threads)
    given.out.mkdir(parents=True, exist_ok=True)
    target = Dense(given.target, device=given.device)
    settings = TrainSettings(**{each.name: getattr(given, each.name) for each in fields(USUAL)})
    method = make(given.method, target, _vocabulary(given, target.shape.vocab), given.mask_token)
    _describe(given, settings)
    trainer = Trainer.open(method, settings, given.out, given.device)

    def features() -> Features:
        return Features(target, method.states, _lines(given.dataset), given.features)

    with progress() as bar:
        task = bar.add_task(given.method, total=settings.tokens)
        for now in trainer.run(features):
            said = f"{given.method}, step {now.step}, loss {now.loss:.2f}"
            bar.update(task, completed=now.tokens, description=said)


def make(name: str, target: Dense, ids: Sequence[int], mask: int) -> Method:
    """A method for a target, on the states that it reads by default."""
    if not 0 <= mask < target.shape.vocab:
        raise CorpusError(f"the mask token is {mask}, the target has {target.shape.vocab} tokens")
    read_of = states(target.shape.layers)
    return METHODS[name](target, read_of, torch.tensor(ids, device=target.device), mask)


def _lines(dataset: Path) -> list[Line]:
    header, texts = read(dataset)
    return [Line.of(header, text) for text in texts]


def _vocabulary(given: argparse.Namespace, vocab: int) -> list[int]:
    """As it was when the run began."""
    place = given.out / "vocabulary.json"
    if not place.is_file():
        lines = _lines(given.dataset)
        if not lines:
            raise CorpusError(f"{given.dataset} holds no texts yet")
        ids = frequent([line.ids[line.start :] for line in lines], given.vocabulary, vocab)
        place.write_text(json.dumps(ids))
    found: list[int] = json.loads(place.read_text())
    return found


def _describe(given: argparse.Namespace, settings: TrainSettings) -> None:
    said: dict[str, object] = {
        "method": given.method,
        "target": str(given.target),
        "dataset": str(given.dataset),
    }
    said["mask_token"] = given.mask_token
    (given.out / "run.json").write_text(json.dumps(said | asdict(settings), indent=1))
