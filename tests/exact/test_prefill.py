"""Prompts that prefill nodes compute, over the mesh: the text is the oracle's, and drafters guess what they would."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from drafter.config import DrafterConfig
from protocol.messages import Ending
from tests.cluster import Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target
from tests.exact.test_hidden import count, drafter
from tests.prefill import EAGER
from verifier.config import FeaturesConfig
from verifier.step import Step, Verdict

ROUNDS: Final = 5


def cluster(target: Target, drafters: Sequence[DrafterConfig] = (), **more: Any) -> Cluster:
    settings = {"page_size": PAGE, "max_chunk": CHUNK, "prefill": {"p0": PAGE}, "handover": EAGER}
    return Cluster(target.folder, drafters, **settings | more)


def handed(made: Cluster, outcome: str) -> int:
    return made.core.facts().counters["handovers"][outcome]


def level(made: Cluster) -> None:
    """Nobody holds anything any more."""
    made.settle()
    assert made.pool.free == made.pool.pages
    assert not made.core.handover._asked
    for node in made.prefill.values():
        assert node.core.pool.free == node.core.pool.pages
        assert not node.core.prompts


@pytest.mark.parametrize(("theirs", "ours"), [(16, 16), (16, 32), (32, 16), (32, 32)])
def test_prompts_of_every_length_give_the_same_text(
    target: Target, theirs: int, ours: int
) -> None:
    """Once as they are, then with their first pages in both caches, then in that of the verifier alone."""
    split = cluster(target, prefill={"p0": theirs}, page_size=ours, pages=4096 // ours)
    wanted = [each.tokens for each in target.answers]
    computed = []
    for again in range(3):
        answers = split.generate(target.prompts, Ending(OUTPUT))
        assert [answer.tokens for answer in answers] == wanted
        computed.append(split.prefill["p0"].core.counters["computed_tokens"])
        if again == 1:
            split.kill("p0")
            split.turns(1100)  # until its link is silent for too long
            split.start_prefill("p0")
    assert handed(split, "taken") >= len(target.prompts) - 1
    assert computed[1] - computed[0] < computed[0] / 4  # a prefix hit leaves little
    level(split)


def test_a_prefix_that_only_the_prefill_node_knows_is_not_computed_again(target: Target) -> None:
    split = cluster(target)
    longest = max(target.prompts, key=len)
    [first] = split.generate([longest], Ending(OUTPUT))
    split.pool.clear_cache()
    node = split.prefill["p0"].core
    before = node.counters["computed_tokens"]
    [again] = split.generate([longest], Ending(OUTPUT))
    assert again.tokens == first.tokens
    assert handed(split, "taken") == 2
    assert node.counters["computed_tokens"] - before < PAGE
    assert node.counters["prefix_hits"] > len(longest) - 2 * PAGE


def test_a_prefix_that_the_verifier_knows_does_not_travel(target: Target) -> None:
    split = cluster(target)
    longest = max(target.prompts, key=len)
    known = longest[: 4 * PAGE + 3]
    split.generate([known], Ending(1))
    before = count(split, "handed_tokens")
    [answer] = split.generate([longest], Ending(OUTPUT))
    assert answer.tokens == target.answers[target.prompts.index(longest)].tokens
    assert count(split, "handed_tokens") - before == len(longest) - 1 - 4 * PAGE


def test_bytes_on_the_way_are_those_of_the_layout(target: Target) -> None:
    split = cluster(target)
    split.generate(target.prompts, Ending(1))
    tokens = count(split, "handed_tokens")
    size = 2 * 2 * 2 * 16 * 4  # layers, key and value, heads, numbers, bytes
    assert tokens > 0
    assert count(split, "handed_bytes") == tokens * size
    assert split.prefill["p0"].core._channels.sent_bytes == tokens * size


def test_short_prompts_stay_here(target: Target) -> None:
    split = cluster(target, handover=EAGER.model_copy(update={"least": 100}))
    answers = split.generate(target.prompts, Ending(OUTPUT))
    assert [each.tokens for each in answers] == [each.tokens for each in target.answers]
    assert handed(split, "taken") == sum(len(prompt) > 100 for prompt in target.prompts)


# --- what drafters get: a row of the table in docs/disaggregation.md each ----------------------------------------------


class Watched:
    """The verifier's worker; notes the guesses of each round by how much output there was before it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.rounds: defaultdict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = defaultdict(
            list
        )

    def run(self, step: Step) -> list[Verdict]:
        for work in step.rows:
            if work.draws:
                self.rounds[tuple(work.prompt)].append((len(work.output), work.guesses))
        verdicts: list[Verdict] = self._inner.run(step)
        return verdicts


def guesses(target: Target, split: Cluster) -> dict[tuple[int, ...], list[Any]]:
    """The first rounds of each prompt, one after the other so that rounds do not depend on others."""
    split.verifier._worker = watched = Watched(split.verifier._worker)
    for prompt, answer in zip(target.prompts, target.answers, strict=True):
        [said] = split.generate([prompt], Ending(OUTPUT))
        assert said.tokens == answer.tokens
    return {prompt: rounds[:ROUNDS] for prompt, rounds in watched.rounds.items()}


TABLE: Final = {
    "suffix": False,
    "ngram": False,
    "standalone": False,
    "eagle1": True,
    "eagle3": True,
    "dflash": True,
    "dspark": True,
}
"""Methods, and whether rows of hidden states travel for them."""


@pytest.mark.parametrize("name", TABLE)
def test_the_first_rounds_have_the_drafts_that_they_have_without_a_split(
    target: Target, tmp_path: Path, name: str
) -> None:
    if TABLE[name]:
        config, features = drafter(tmp_path, target, name, overlap=False)
    else:
        model = target.folder if name == "standalone" else None
        config = DrafterConfig(
            node_id="drafter-0", method=name, model=model, dtype="float32", overlap=False
        )
        features = FeaturesConfig()
    settings: dict[str, Any] = {"draft_length": 4, "features": features, "overlap": False}
    whole = cluster(target, [config], prefill={}, **settings)
    split = cluster(target, [config], **settings)
    wanted, found = guesses(target, whole), guesses(target, split)
    assert found == wanted
    assert sum(len(drafts) for rounds in wanted.values() for _, drafts in rounds) > 0
    assert handed(split, "taken") >= len(target.prompts) - 1
    rows = features.states and split.engine.features
    width = split.engine.features.width if rows and split.engine.features else 0
    assert count(split, "handed_bytes") == count(split, "handed_tokens") * (512 + 4 * width)
