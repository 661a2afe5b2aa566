"""What drafters get of prompts that prefill nodes compute: the rows of the table in docs/disaggregation.md; and what
that is worth.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from drafter.checkpoints.bundled import bundled
from drafter.config import DrafterConfig
from orchestrator.bench.prompts import read
from orchestrator.heads import captured
from orchestrator.models import resolve
from protocol.messages import Ending
from tests.cluster import Answer, Cluster
from tests.exact.conftest import OUTPUT, PAGE, Target
from tests.exact.splits import cluster, handed, target_bytes
from tests.exact.test_heads_learn import PROMPT, SIZE, taught
from tests.exact.test_hidden import count, drafter
from tests.prefill import EAGER
from verifier.config import FeaturesConfig
from verifier.node import Worker
from verifier.pending import Pending, Wake
from verifier.step import Step
from verifier.text import load_tokenizer

ROUNDS: Final = 5
Round = tuple[int, tuple[int, ...]]
"""How much output there was before it, and its guesses."""


class Watched:
    """The verifier's worker; notes the rounds of each prompt."""

    def __init__(self, inner: Worker) -> None:
        self._inner = inner
        self.rounds: defaultdict[tuple[int, ...], list[Round]] = defaultdict(list)

    def begin(self, step: Step, wake: Wake) -> Pending:
        for work in step.rows:
            if work.draws:
                self.rounds[tuple(work.prompt)].append((len(work.output), work.guesses))
        return self._inner.begin(step, wake)


def guesses(target: Target, split: Cluster) -> dict[tuple[int, ...], list[Round]]:
    """The first rounds of each prompt behind its first token, one prompt after the other: none depends on others.

    For the first token itself there are guesses if the last chunk of a prompt was of one token, split or not.
    """
    split.verifier._worker = watched = Watched(split.verifier._worker)
    for prompt, answer in zip(target.prompts, target.answers, strict=True):
        [said] = split.generate([prompt], Ending(OUTPUT))
        assert said.tokens == answer.tokens
    behind = {
        prompt: [each for each in rounds if each[0]] for prompt, rounds in watched.rounds.items()
    }
    return {prompt: rounds[:ROUNDS] for prompt, rounds in behind.items()}


SETTINGS: Final[dict[str, Any]] = {"draft_length": 4, "overlap": False, "planner": "fixed"}
"""The default planner would verify as much of a guess as it is worth, by what it has learned so far."""


@pytest.mark.parametrize("name", ["suffix", "ngram", "standalone"])
def test_for_drafters_that_read_tokens_nothing_travels_but_the_targets_kv(
    target: Target, name: str
) -> None:
    """They had the prompt before it was computed, and may have guesses for the very first round."""
    model = target.folder if name == "standalone" else None
    config = DrafterConfig(node_id="drafter-0", method=name, model=model, dtype="float32")
    split = cluster(target, [config], **SETTINGS)
    answers = split.generate(target.prompts, Ending(OUTPUT))
    assert [each.tokens for each in answers] == [each.tokens for each in target.answers]
    assert count(split, "draft_tokens") > 0
    assert handed(split, "taken") == len(target.prompts) - 1
    assert count(split, "handed_bytes") == count(split, "handed_tokens") * target_bytes(split)
    assert count(split, "hidden_rows") == 0


@pytest.mark.parametrize("name", ["eagle1", "eagle3", "dflash", "dspark"])
def test_for_heads_the_rows_travel_and_the_first_rounds_have_the_same_drafts(
    target: Target, tmp_path: Path, name: str
) -> None:
    """All prompt rows: three states side by side, the last one alone (EAGLE-1), or projected ones (DFlash, DSpark)."""
    config, features = drafter(tmp_path, target, name, overlap=False)
    whole = cluster(target, [config], prefill={}, features=features, **SETTINGS)
    split = cluster(target, [config], features=features, **SETTINGS)
    wanted, found = guesses(target, whole), guesses(target, split)
    assert found == wanted
    assert sum(len(drafts) for rounds in wanted.values() for _, drafts in rounds) > 100
    assert handed(split, "taken") == len(target.prompts) - 1
    assert split.engine.features is not None
    size = target_bytes(split) + 4 * split.engine.features.width
    assert count(split, "handed_bytes") == count(split, "handed_tokens") * size


def test_rows_that_do_not_travel_cost_the_whole_prompt(target: Target, tmp_path: Path) -> None:
    """A node that keeps no rows is of no use for a head: KV without them would leave its drafter blind."""
    config, features = drafter(tmp_path, target, "dflash")
    computed = []
    for kept in (features, FeaturesConfig()):
        split = cluster(target, [config], features=features, **SETTINGS)
        split.kill("p0")
        split.start_prefill("p0", kept)
        answers = split.generate(target.prompts, Ending(1))
        assert [each.tokens for each in answers] == [each.tokens[:1] for each in target.answers]
        computed.append(int(split.core.facts().histograms["step_tokens"].total))
    prompts = sum(map(len, target.prompts))
    assert computed == [len(target.prompts), prompts]  # the anchors; everything
    assert handed(split, "refused") > 0


# --- what it is worth: a head that knows one text by heart ------------------------------------------------------------


def accepted(made: Cluster, prompt: Sequence[int], length: int = OUTPUT - SIZE) -> float:
    """Which part of the guesses was accepted."""
    [answer] = made.generate([prompt], Ending(length))
    assert handed(made, "taken") == len(made.prefill)
    assert answer.done
    assert answer.done.statistics.drafted >= 20
    return kept([answer])


def kept(answers: Sequence[Answer]) -> float:
    """Which part of the guesses was accepted, over all of these answers."""
    statistics = [each.done.statistics for each in answers if each.done]
    return sum(each.accepted for each in statistics) / sum(each.drafted for each in statistics)


@pytest.mark.parametrize(
    "name",
    ["dspark", *[pytest.param(each, marks=pytest.mark.full) for each in ("dflash", "eagle3")]],
)
def test_rows_of_the_prompt_are_what_makes_guesses_right_from_the_first_round(
    target: Target, tmp_path: Path, name: str
) -> None:
    """The same split, once with the row of the last position alone: the head guesses as if it had begun there."""
    config = taught(tmp_path, target, name)
    features = captured(config)
    prompt = target.prompts[PROMPT]
    shipped = accepted(cluster(target, [config], features=features, **SETTINGS), prompt)
    last = features.model_copy(update={"recent": 1})
    withheld = accepted(cluster(target, [config], features=last, **SETTINGS), prompt)
    assert shipped == 1.0
    assert withheld < 0.7 * shipped


BFLOAT16: Final = 0.98
"""Acceptance with a split, as a part of that without one."""


@pytest.mark.parametrize(
    "name",
    ["dspark", *[pytest.param(each, marks=pytest.mark.full) for each in ("dflash", "eagle3")]],
)
def test_with_rows_in_bfloat16_guesses_are_as_good_as_without_a_split(
    target: Target, tmp_path: Path, name: str
) -> None:
    """The target stays in float32: it would not say the text that was learned."""
    config = taught(tmp_path, target, name).model_copy(update={"dtype": "bfloat16"})
    settings = {"features": captured(config), "max_chunk": 16, **SETTINGS}
    prompt = target.prompts[PROMPT]
    whole = accepted(cluster(target, [config], prefill={}, **settings), prompt)
    assert whole > 0.5
    for size in (16, 32):
        split = cluster(target, [config], prefill={"p0": size}, **settings)
        assert accepted(split, prompt) >= BFLOAT16 * whole


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_default_model_and_its_head_are_as_good_as_without_a_split() -> None:
    """In bfloat16, with prompts of several chunks. Near ties part some texts, of which guesses say nothing then."""
    folder, head = resolve("smollm2-135m"), bundled("smollm2-135m", "eagle3")
    config = DrafterConfig(
        node_id="drafter-0", method="eagle3", model=head, target=folder, dtype="bfloat16", overlap=False
    )  # fmt: skip
    tokenizer = load_tokenizer(folder)
    texts = [each.messages[0]["content"] for each in read("chat", 8)]
    prompts = [tokenizer.encode(3 * f"{text}\n").ids for text in texts]
    said: list[list[Answer]] = []
    for prefill in ({}, {"p0": PAGE}):
        made = Cluster(
            folder,
            [config],
            dtype="bfloat16",
            features=captured(config),
            prefill=prefill,
            handover=EAGER,
            **SETTINGS,
        )
        said.append([made.generate([each], Ending(32, ignore_eos=True))[0] for each in prompts])
        assert handed(made, "taken") == len(prompts) * len(prefill)
    alike = [pair for pair in zip(*said, strict=True) if pair[0].tokens == pair[1].tokens]
    assert len(alike) >= len(prompts) / 2
    whole, split = (kept(answers) for answers in zip(*alike, strict=True))
    assert split >= BFLOAT16 * whole > 0.1
