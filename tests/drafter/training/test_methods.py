"""What heads guess in training, all places of all texts at once, is what they guess when every guess is computed anew.

The other side is the dense arithmetic of `tests/drafter/dense.py`, text by text and token by token.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from drafter.training.dflash import DFlash
from drafter.training.dspark import DSpark
from drafter.training.features import Line
from drafter.training.methods import Method
from drafter.training.target import Dense
from tests.drafter import dense
from tests.drafter.training import micro
from tests.exact import training
from tests.models import write_byte_llama

SOME = [*range(0, 250, 2), 251, 253, 255]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dense, list[Line]]:
    folder = tmp_path_factory.mktemp("target")
    model = write_byte_llama(folder)
    return Dense(folder, dtype=torch.float32), micro.spoken(model, 4, length=14)


@pytest.mark.parametrize("name", ["eagle3", "dflash", "dspark"])
def test_right_guesses_are_those_of_guessing_one_by_one(
    spoken: tuple[Dense, list[Line]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(dense, "EPS", spoken[0].shape.eps)
    target, lines = spoken
    method = micro.make(name, target, SOME if name != "dflash" else range(261))
    features = micro.features(target, method, lines, None)
    batch = features.batch(range(len(lines)))
    w, _ = micro.taught(method, batch, 30)
    found = method.right(w, batch)
    some_are_right = False
    for number, line in enumerate(lines):
        rows = features.batch([number]).states_BTS[0].float()
        known = with_target(w, target, method.ids_U)
        counts = found[number]
        assert len(counts) == len(line.ids) - line.start - 1
        for place, count in enumerate(counts):
            anchor = line.start + place
            guesses = one_by_one(name, known, list(line.ids[: anchor + 1]), rows[:anchor], method)
            behind = line.ids[anchor + 1 : anchor + 1 + method.guesses]
            wanted = next(
                (i for i, (a, b) in enumerate(zip(guesses, behind, strict=False)) if a != b),
                len(behind),
            )
            assert count == wanted, (number, place)
            some_are_right |= wanted > 0
    assert some_are_right


def with_target(w: dict[str, Tensor], target: Dense, ids: Tensor) -> dict[str, Tensor]:
    """Under the names that the dense arithmetic reads."""
    embedding = target.embedding_VH.float()
    known = {"embed_tokens.weight": embedding, "lm_head.weight": embedding, **w}
    if (
        "markov_head.markov_w2.weight" in w
    ):  # it guesses tokens of its vocabulary, by the target's rows of them
        known["lm_head.weight"] = embedding[ids]
    if len(known["lm_head.weight"]) == len(ids):
        known["d2t"] = ids - torch.arange(len(ids))
    return known


def one_by_one(
    name: str, w: dict[str, Tensor], line: list[int], rows: Tensor, method: Method
) -> list[int]:
    if name == "eagle3":
        parts = rows.chunk(len(method.states), -1)
        normed = [dense.rms(part, w[f"fc_norm.{i}.weight"]) for i, part in enumerate(parts)]
        return training.chained(w, line, torch.cat(normed, -1), method.guesses, third=True)
    assert isinstance(method, DFlash | DSpark)
    shape = method.blocks.shape
    assert shape.mask == training.MASK
    return training.blocked(w, line, rows, shape.size, from_anchor=shape.from_anchor)


@pytest.mark.parametrize("name", ["eagle3", "dflash", "dspark"])
def test_training_on_a_few_texts_learns_them(spoken: tuple[Dense, list[Line]], name: str) -> None:
    """The loss falls, and what is learned is what `right` looks at: most guesses are right afterwards."""
    target, lines = spoken
    method = micro.make(name, target)
    batch = micro.features(target, method, lines, None).batch(range(len(lines)))
    w, losses = micro.taught(method, batch, 150)
    first = [count > 0 for counts in method.right(w, batch) for count in counts]
    assert losses[-1] < 0.75 * losses[0]  # the distributions of the target are not sharp
    assert sum(first) > 0.8 * len(first)


def test_features_that_were_kept_are_those_that_are_made(
    spoken: tuple[Dense, list[Line]], tmp_path: Path
) -> None:
    """Also when the corpus grew meanwhile."""
    target, lines = spoken
    method = micro.make("eagle3", target)
    made = micro.features(target, method, lines, None).batch([0, 3])
    micro.features(target, method, lines[:2], tmp_path).batch([0, 1])
    grown = micro.features(target, method, lines, tmp_path)
    assert grown._done.tolist() == [1, 1, 0, 0]
    for _ in range(2):
        kept = grown.batch([0, 3])
        for field in ("ids_BT", "starts_B", "ends_B", "states_BTS", "final_BTH"):
            assert torch.equal(getattr(kept, field), getattr(made, field)), field
    assert grown._done.tolist() == [1, 1, 0, 1]
