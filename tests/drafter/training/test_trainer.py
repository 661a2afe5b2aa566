"""Runs: a killed one ends like one that was not, validation looks at the right texts, and heads are written whole."""

import json
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from drafter.checkpoints import CheckpointError, Target, read
from drafter.training import card
from drafter.training.export import write
from drafter.training.features import Features, Line
from drafter.training.order import held_out
from drafter.training.target import Dense
from drafter.training.trainer import Trainer, TrainSettings
from tests.drafter.training import micro
from tests.models import write_byte_llama

SETTINGS = TrainSettings(tokens=2500, batch=200, warm_up=2, validate=7, save=5)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dense, list[Line]]:
    folder = tmp_path_factory.mktemp("target")
    model = write_byte_llama(folder)
    return Dense(folder, dtype=torch.float32), micro.spoken(model, 45, length=14)


def run(
    spoken: tuple[Dense, list[Line]], folder: Path, steps: int | None, name: str = "dspark"
) -> Trainer:
    """So many steps of a run, or all that are left."""
    target, lines = spoken
    folder.mkdir(exist_ok=True)
    method = micro.make(name, target)
    trainer = Trainer.open(method, SETTINGS, folder, "cpu")
    features = Features(target, method.states, lines, None)
    for _ in islice(trainer.run(lambda: features), steps):
        pass
    return trainer


@pytest.mark.parametrize("killed_after", [3, 8])
def test_a_run_that_was_killed_ends_with_the_same_weights(
    spoken: tuple[Dense, list[Line]], tmp_path: Path, killed_after: int
) -> None:
    """Killed before its first checkpoint it begins anew; after it, it goes on from there."""
    whole = run(spoken, tmp_path / "whole", None)
    run(spoken, tmp_path / "killed", killed_after)
    resumed = run(spoken, tmp_path / "killed", None)
    assert resumed.progress == whole.progress
    assert whole.progress.epoch >= 1
    for name, w in whole.weights.items():
        assert torch.equal(resumed.weights[name], w), name
        assert torch.equal(resumed.mean[name], whole.mean[name]), name
    assert card.log(tmp_path / "killed") == card.log(tmp_path / "whole") != []


def test_validation_looks_at_greedy_texts_that_are_held_out(
    spoken: tuple[Dense, list[Line]], tmp_path: Path
) -> None:
    target, lines = spoken
    trainer = run(spoken, tmp_path, 1)
    sampled = [replace(line, sampled=n == 40, kind="math") for n, line in enumerate(lines)]
    found = trainer.validate(Features(target, trainer.method.states, sampled, None))
    assert list(found) == ["math"]
    right = trainer.method.right(
        trainer.mean, Features(target, trainer.method.states, lines, None).batch([0])
    )
    rounds, place = 0, 0
    while place < len(right[0]):
        rounds, place = rounds + 1, place + 1 + right[0][place]
    assert held_out(0)
    assert held_out(40)
    assert found["math"].rounds == rounds


@pytest.mark.parametrize("name", ["eagle3", "dflash", "dspark"])
def test_what_is_written_is_a_head_of_its_dialect(
    spoken: tuple[Dense, list[Line]], tmp_path: Path, name: str
) -> None:
    target, _ = spoken
    method = micro.make(name, target, range(261) if name == "dflash" else range(0, 261, 3))
    heats = [1.5, 0.5, 1.0, 2.0] if name == "dspark" else []
    write(method, method.fresh(torch.Generator()), tmp_path, heats)
    head = read(tmp_path, Target.read(target.folder))
    head.check([name])
    assert head.states == method.states
    assert head.confidence_temperatures == tuple(heats)
    assert head.model.rope == target.model.rope
    assert head.shape.eps == target.shape.eps


def test_temperatures_that_do_not_fit_are_refused(
    spoken: tuple[Dense, list[Line]], tmp_path: Path
) -> None:
    target, _ = spoken
    method = micro.make("dspark", target)
    write(method, method.fresh(torch.Generator()), tmp_path, [1.0, 1.0])
    with pytest.raises(CheckpointError, match="wanted are 4 numbers"):
        read(tmp_path, Target.read(target.folder))


def test_a_card_says_what_was_found_and_the_curve_is_drawn(
    spoken: tuple[Dense, list[Line]], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    target, lines = spoken
    trainer = run(spoken, tmp_path / "run", None)
    write(trainer.method, trainer.mean, tmp_path / "out")
    found = trainer.validate(Features(target, trainer.method.states, lines, None))
    said = card.facts({"method": "dspark", "target": "t"}, found, 4, {"tokens_seen": 5})
    card.write(tmp_path / "out", said)
    stored = json.loads((tmp_path / "out/card.json").read_text())
    total = stored["acceptance"]["all"]["mean_emitted"]
    assert total == round(found["chat"].mean_emitted, 3)
    assert (
        f"| all | {found['chat'].rounds} | {total:.3f} |"
        in (tmp_path / "out/README.md").read_text()
    )
    card.plot({"run": card.log(tmp_path / "run")}, tmp_path / "curve.svg")
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    shutil.rmtree(tmp_path / "run")
    assert card.log(tmp_path / "run") == []
