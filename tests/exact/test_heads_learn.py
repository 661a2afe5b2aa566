"""Heads that know one text by heart are right about all of it over the mesh; with labels off by one they are not.

This catches every fault of alignment: layer, row, position, slot, chunk, prefix, page.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from drafter.config import DrafterConfig
from orchestrator.heads import captured
from protocol.messages import Ending
from protocol.process import Drain
from tests import heads
from tests.cluster import Answer, Cluster
from tests.exact import training
from tests.exact.conftest import OUTPUT, PAGE, Target

PROMPT: Final = 7  # of the target's prompts: 40 tokens
SIZE: Final = 5


@dataclass(frozen=True)
class Kind:
    """How a head is written and trained, and which of the target's states it reads.

    An EAGLE-1 head takes longest: it has to say the target's last state itself.
    """

    method: str
    write: Callable[[Path], Path]
    states: tuple[int, ...]
    trained: dict[str, Any]
    steps: int = 100


KINDS: Final = {
    "eagle3": Kind(
        "eagle3",
        lambda f: heads.eagle_3(f, vocab=heads.VOCAB),
        (0, 1, 2),
        {"third": True},
        steps=250,
    ),
    "eagle1": Kind("eagle3", heads.eagle_1, (3,), {"third": False}, steps=1000),
    "dflash": Kind(
        "dflash", lambda f: heads.zlab_dflash(f, block=SIZE), (1, 2), {"from_anchor": False}
    ),
    "dspark": Kind(
        "dspark", lambda f: heads.specforge_dspark(f, block=SIZE), (1, 2), {"from_anchor": True}
    ),
}


def taught(
    folder: Path, target: Target, name: str, *, shift: int = 0, steps: int | None = None
) -> DrafterConfig:
    """A head that saw the answer to one prompt so often."""
    kind = KINDS[name]
    kind.write(folder)
    line, rows = learned(target, kind)
    first = len(target.prompts[PROMPT])
    w = training.frozen_matrices(training.read(folder, target.folder))
    if "third" in kind.trained:
        loss = training.chain_loss(line, rows, first, shift=shift, **kind.trained)
    else:
        loss = training.block_loss(line, rows, first, shift=shift, size=SIZE, **kind.trained)
    training.learn(folder, w, loss, kind.steps if steps is None else steps)
    return DrafterConfig(
        node_id="drafter-0",
        method=kind.method,
        model=folder,
        target=target.folder,
        dtype="float32",
        overlap=False,
    )


def learned(target: Target, kind: Kind) -> tuple[list[int], Tensor]:
    """The text, and the rows of all its positions."""
    line = [*target.prompts[PROMPT], *target.answers[PROMPT].tokens]
    states = training.states_of(target.model, line)
    return line, torch.cat([states[each] for each in kind.states], dim=-1)


def online(
    target: Target, config: DrafterConfig, *, length: int = 4, page_size: int = PAGE, **more: Any
) -> Cluster:
    return Cluster(
        target.folder, [config], draft_length=length, features=captured(config), overlap=config.overlap,
        page_size=page_size, max_chunk=16, **more,
    )  # fmt: skip


def answer(cluster: Cluster, target: Target) -> tuple[Answer, float]:
    """What is said to the prompt that was learned, and which part of the guesses was accepted."""
    (said,) = cluster.generate([target.prompts[PROMPT]], Ending(OUTPUT - SIZE))
    assert said.done
    assert said.tokens == target.answers[PROMPT].tokens[: OUTPUT - SIZE]
    counted = said.done.statistics
    return said, counted.accepted / counted.drafted


@pytest.mark.parametrize("name", KINDS)
def test_a_text_that_was_learned_is_guessed_whole(
    target: Target, tmp_path: Path, name: str
) -> None:
    said, rate = answer(online(target, taught(tmp_path, target, name)), target)
    assert rate == 1.0
    assert said.done
    assert said.done.statistics.rounds <= 3 + (OUTPUT - SIZE) // 5


@pytest.mark.parametrize("name", KINDS)
def test_labels_that_are_off_by_one_are_not_accepted(
    target: Target, tmp_path: Path, name: str
) -> None:
    """Without this, the test above could pass with rows of any position."""
    _, rate = answer(online(target, taught(tmp_path, target, name, shift=1)), target)
    assert rate < 0.5


def offline(
    target: Target, config: DrafterConfig, name: str, length: int, committed: int | None = None
) -> float:
    """Acceptance by teacher forcing, round after round, in dense arithmetic: no page, no mirror, no mesh.

    From a line of `committed` tokens on; by default from the first token of the answer.
    """
    kind = KINDS[name]
    line, rows = learned(target, kind)
    assert config.model is not None
    w = training.read(config.model, target.folder)
    end = len(target.prompts[PROMPT]) + OUTPUT - SIZE
    committed = committed or len(target.prompts[PROMPT]) + 1
    drafted = accepted = 0
    while committed < end:
        guesses = _guesses(w, kind, line[:committed], rows[: committed - 1], length)
        guesses = guesses[: end - committed - 1]
        right = next(
            (i for i, each in enumerate(guesses) if each != line[committed + i]), len(guesses)
        )
        drafted, accepted, committed = (
            drafted + len(guesses),
            accepted + right,
            committed + right + 1,
        )
    return accepted / drafted


def _guesses(
    w: training.Weights, kind: Kind, line: list[int], rows: Tensor, length: int
) -> list[int]:
    if "third" in kind.trained:
        return training.chained(w, line, rows, length, third=kind.trained["third"])
    return training.blocked(w, line, rows, SIZE, from_anchor=kind.trained["from_anchor"])[:length]


@pytest.mark.parametrize("steps", [8, 30])
@pytest.mark.parametrize("name", KINDS)
def test_acceptance_over_the_mesh_is_what_teacher_forcing_says(
    target: Target, tmp_path: Path, name: str, steps: int
) -> None:
    """Heads that know the text a little: the same rounds, drafted and judged with none of the service's code."""
    config = taught(tmp_path, target, name, steps=steps)
    _, rate = answer(online(target, config), target)
    assert rate == pytest.approx(offline(target, config, name, 4), abs=0.03)


@pytest.mark.parametrize("name", ["eagle3", "dspark"])
def test_a_drafter_that_joins_in_the_middle_is_as_good_as_one_that_was_there(
    target: Target, tmp_path: Path, name: str
) -> None:
    """It is sent the rows of everything before, so it is right about all that follows."""
    late = online(target, taught(tmp_path, target, name), length=2)
    running = late.begin([target.prompts[PROMPT]], Ending(OUTPUT - SIZE))
    late.turns(7)
    late.kill("drafter-0")
    late.turns(2)
    (said,) = running.values()
    assert said.done is None
    before = counts(late)
    late.start("drafter-0")
    late.finish(running)
    drafted, accepted = (after - then for after, then in zip(counts(late), before, strict=True))
    assert accepted == drafted >= 8  # those before it was found again are plain


@pytest.mark.parametrize("name", ["eagle3", "dspark"])
def test_a_request_that_moves_is_drafted_for_as_if_it_had_not(
    target: Target, tmp_path: Path, name: str
) -> None:
    """One drafter drains in mid-stream; the other is sent all rows, and every one of its guesses is right, too."""
    config = taught(tmp_path, target, name)
    two = [config.model_copy(update={"node_id": f"drafter-{number}"}) for number in range(2)]
    moving = Cluster(target.folder, two, draft_length=2, page_size=PAGE, features=captured(config))
    running = moving.begin([target.prompts[PROMPT]], Ending(OUTPUT - SIZE))
    moving.turns(7)
    moving.drafters["drafter-0"].command(Drain())
    moving.turns(2)
    assert len(moving.drafters["drafter-0"].core) == 0
    assert moving.drafters["drafter-0"].stopped
    before = counts(moving)
    moving.finish(running)
    drafted, accepted = (after - then for after, then in zip(counts(moving), before, strict=True))
    assert accepted == drafted >= 8
    assert moving.core.drafting.unbindings["draining"] == 1


@pytest.mark.parametrize("name", ["eagle3", "dspark"])
def test_after_a_move_acceptance_is_that_of_an_undisturbed_run(
    target: Target, tmp_path: Path, name: str
) -> None:
    """A head that knows the text a little: what it gets right of the rest does not hang on when it joined."""
    config = taught(tmp_path, target, name, steps=30)
    two = [config.model_copy(update={"node_id": f"drafter-{number}"}) for number in range(2)]
    moving = Cluster(
        target.folder, two, draft_length=4, page_size=PAGE, max_chunk=16, features=captured(config)
    )
    running = moving.begin([target.prompts[PROMPT]], Ending(OUTPUT - SIZE))
    moving.turns(7)
    moving.drafters["drafter-0"].command(Drain())
    while moving.core.drafting.unbindings["draining"] == 0:
        moving.turns(1)
    while not counts(moving)[0] or moving.core.drafting.bindings < 2:
        moving.turns(1)
    before = counts(moving)
    (generation,) = moving.core._generations.values()
    line = len(generation.line)
    moving.finish(running)
    drafted, accepted = (after - then for after, then in zip(counts(moving), before, strict=True))
    assert drafted >= 8
    assert accepted / drafted == pytest.approx(offline(target, config, name, 4, line), abs=0.15)


def counts(cluster: Cluster) -> tuple[int, int]:
    """Tokens that were drafted, and accepted."""
    counters = cluster.core.facts().counters
    return counters["draft_tokens"][""], counters["accepted_tokens"][""]
