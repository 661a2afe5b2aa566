"""`drafter export`: a trained head as a checkpoint folder with its card; with `--plot`, the curves of runs."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from drafter.checkpoints import Target
from drafter.checkpoints import read as read_head
from drafter.train_cli import MASK, make
from drafter.training import card
from drafter.training.calibration import calibration_error, survivals, temperatures
from drafter.training.corpus import CorpusError, read, read_header
from drafter.training.dspark import DSpark
from drafter.training.export import write
from drafter.training.features import Features, Line
from drafter.training.methods import Method
from drafter.training.order import held_out
from drafter.training.rounds import Acceptance
from drafter.training.target import Dense
from drafter.training.trainer import accepted, progress_of
from engine.errors import EngineError

Found = dict[str, Acceptance]


def main(argv: list[str]) -> None:
    """Write the head of a run; the exit code is 1 when it could not be done."""
    given = _arguments().parse_args(argv)
    try:
        if given.plot:
            card.plot({run.name: card.log(run) for run in given.run}, given.plot)
        if given.out:
            export(given)
    except (CorpusError, EngineError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(1) from error


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("drafter export", description=__doc__)
    parser.add_argument("--run", type=Path, required=True, action="append", metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the checkpoint folder to write")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="curves of all runs")
    parser.add_argument(
        "--check",
        type=Path,
        metavar="FILE.u16",
        help="answers to other prompts (drafter dataset answer), for the card",
    )
    parser.add_argument("--texts", type=int, default=160, help="held-out texts that are looked at")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser


def export(given: argparse.Namespace) -> None:
    """The first run's head: weights, calibration, card."""
    torch.set_num_threads(given.threads)
    folder = given.run[0]
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    target = Dense(Path(run["target"]), device=given.device)
    method = make(
        run["method"],
        target,
        json.loads((folder / "vocabulary.json").read_text()),
        run.get("mask_token", MASK),
    )
    w = {
        name.removeprefix("mean."): tensor.to(target.device)
        for name, tensor in load_file(folder / "state.safetensors").items()
        if name.startswith("mean.")
    }
    dataset = Path(run["dataset"])
    lines = _held_out(dataset, given.texts)
    features = Features(target, method.states, lines, None)
    found = _named("held-out", accepted(method, w, features, range(len(lines)), run["batch"]))
    if given.check:
        header, texts = read(given.check)
        others = [Line.of(header, text) for text in texts]
        features = Features(target, method.states, others, None)
        found |= _named("bench", accepted(method, w, features, range(len(others)), run["batch"]))
    heats, more = _calibrated(method, w, Features(target, method.states, lines, None))
    write(method, w, given.out, heats)
    read_head(given.out, Target.read(target.folder)).check([run["method"]])
    header = read_header(dataset)
    more |= {
        "tokens_seen": progress_of(folder).tokens,
        "corpus_numbers": header.whole,
        "corpus_settings": header.settings,
        "target_sha256": header.target,
    }
    card.write(given.out, card.facts(run, found, method.guesses, more))


def _held_out(dataset: Path, most: int) -> list[Line]:
    """Greedy texts that were not trained on."""
    header, texts = read(dataset)
    chosen = [text for n, text in enumerate(texts) if held_out(n) and not text.sampled]
    return [Line.of(header, text) for text in chosen[:most]]


def _named(what: str, found: Found) -> Found:
    return {f"{what}-{name}": each for name, each in found.items()}


def _calibrated(
    method: Method, w: dict[str, Tensor], features: Features
) -> tuple[list[float], dict[str, Any]]:
    """Temperatures of a head that says how sure it is, fitted on half of the blocks and judged on the others."""
    if not isinstance(method, DSpark):
        return [], {}
    judged = [
        pair
        for number in range(len(features.lines))
        for pair in method.judged(w, features.batch([number]))
    ]
    kept_NJ = torch.cat([good.long().cumprod(-1).bool() for good, _ in judged]).cpu()
    logit_NJ = torch.cat([sure for _, sure in judged]).cpu()
    heats = temperatures(logit_NJ[::2], kept_NJ[::2])
    errors = {
        name: calibration_error(survivals(logit_NJ[1::2], heat).flatten(), kept_NJ[1::2].flatten())
        for name, heat in (
            ("before", torch.ones(len(heats))),
            ("after", torch.tensor(heats)),
        )
    }
    return heats, {
        "temperatures": [round(each, 3) for each in heats],
        "calibration_error": {name: round(each, 4) for name, each in errors.items()},
    }
