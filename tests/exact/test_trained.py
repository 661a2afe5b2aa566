"""A micro head, trained from scratch on what its target said, exported, and put to work over the mesh.

What validation said of it without a service is what the verifier accepts.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from drafter.config import DrafterConfig
from drafter.export_cli import main as export
from drafter.train_cli import main as train
from drafter.training.corpus import Corpus, Header, Text
from protocol.messages import Ending
from tests.drafter.training import micro
from tests.exact.conftest import OUTPUT, Target
from tests.exact.test_heads_learn import online
from tests.models import write_byte_llama

TEXTS: Final = 400
LESSONS: Final = 400
REACHES: Final = {"eagle3": 1.5, "dflash": 1.3, "dspark": 1.3}
"""Mean emitted a round on texts that were not trained on."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """One that goes on with what repeats itself: what weights by chance say cannot be learned from texts."""
    folder = tmp_path_factory.mktemp("fluent")
    model = micro.fluent(write_byte_llama(folder), LESSONS)
    model.save_pretrained(folder)
    return Target(folder, model, [], [])


@pytest.fixture(scope="module")
def corpus(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "c.u16"
    lines = micro.spoken(target.model, TEXTS, OUTPUT)
    Corpus(path, Header("t", 0, (), (), "")).append(
        Text("chat", sampled=False, question=line.ids[: line.start], answer=line.ids[line.start :])
        for line in lines
    )
    return path


@pytest.mark.full
@pytest.mark.parametrize("name", REACHES)
def test_a_head_that_is_trained_from_scratch_is_accepted_over_the_mesh(
    target: Target, corpus: Path, tmp_path: Path, name: str
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    words = f"--method {name} --target {target.folder} --dataset {corpus} --out {run} --threads 1"
    train(
        [
            *words.split(),
            *["--tokens", "100000", "--batch", "1024", "--rate", "3e-3", "--mask-token", "4"],
            *("--vocabulary", "261"),
        ]
    )
    export(["--run", str(run), "--out", str(out), "--threads", "1"])
    card = json.loads((out / "card.json").read_text())
    said = card["acceptance"]["all"]
    assert said["mean_emitted"] >= REACHES[name]

    lines = [
        line for n, line in enumerate(micro.spoken(target.model, TEXTS, OUTPUT)) if n % 40 == 0
    ]
    config = DrafterConfig(
        node_id="drafter-0", method=name, model=out, target=target.folder, dtype="float32", overlap=False
    )  # fmt: skip
    cluster = online(target, config, length=card["guesses"])
    answers = [  # one at a time: a step has room for few drafts
        answer
        for line in lines
        for answer in cluster.generate([list(line.ids[: line.start])], Ending(OUTPUT))
    ]
    emitted = sum(len(answer.tokens) - 1 for answer in answers)
    rounds = sum(answer.done.statistics.rounds - 1 for answer in answers if answer.done)
    assert emitted / rounds == pytest.approx(said["mean_emitted"], rel=0.03)
