"""Prompts that prefill nodes compute, over the mesh: the text is the oracle's, and drafters guess what they would."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from drafter.config import DrafterConfig
from protocol.messages import Abort, Ending, Submit
from tests.cluster import Answer, Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target
from tests.exact.test_hidden import count, drafter
from tests.prefill import EAGER
from verifier.config import FeaturesConfig
from verifier.node import Worker
from verifier.prefill import Worker as Computes
from verifier.step import Step, Verdict

ROUNDS: Final = 5
Round = tuple[int, tuple[int, ...]]
"""How much output there was before it, and its guesses."""


def cluster(target: Target, drafters: Sequence[DrafterConfig] = (), **more: Any) -> Cluster:
    settings: dict[str, Any] = {
        "page_size": PAGE,
        "max_chunk": CHUNK,
        "prefill": {"p0": PAGE},
        "handover": EAGER,
    }
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
def test_prompts_of_every_length_give_the_same_text(target: Target, theirs: int, ours: int) -> None:
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
    assert tokens > 0
    assert count(split, "handed_bytes") == tokens * target_bytes(split)
    assert split.prefill["p0"].core._channels.sent_bytes == tokens * target_bytes(split)


def test_short_prompts_stay_here(target: Target) -> None:
    split = cluster(target, handover=EAGER.model_copy(update={"least": 100}))
    answers = split.generate(target.prompts, Ending(OUTPUT))
    assert [each.tokens for each in answers] == [each.tokens for each in target.answers]
    assert handed(split, "taken") == sum(len(prompt) > 100 for prompt in target.prompts)


class Watching:
    """A prefill node's worker; `look` is called when a layer of a forward is in the pages and was told of."""

    def __init__(self, inner: Computes, look: Callable[[int, int], None]) -> None:
        self._inner = inner
        self._look = look
        self._forwards = 0

    def run(self, step: Step, reached: Callable[[int], None]) -> None:
        self._forwards += 1

        def told(layers: int) -> None:
            reached(layers)
            self._look(self._forwards, layers)

        self._inner.run(step, told)


def test_pages_travel_while_the_rest_is_computed(target: Target) -> None:
    """A chunk of the prompt while the next one is computed, and its first layer while that is in its second."""
    split = cluster(target)
    longest = max(target.prompts, key=len)
    arrived: dict[tuple[int, int], list[int]] = {}

    def look(forward: int, layers: int) -> None:
        split.verifier.turn()
        for lease in split.core.handover._taking.leases.values():
            arrived[forward, layers] = list(lease.filled)

    node = split.prefill["p0"]
    node._worker = Watching(node._worker, look)
    [answer] = split.generate([longest], Ending(OUTPUT))
    assert answer.tokens == target.answers[target.prompts.index(longest)].tokens
    assert split.engine.model.layers == 2
    for forward in (1, 2, 3):
        assert arrived[forward, 1] == [forward * CHUNK, (forward - 1) * CHUNK]


# --- what drafters get: the rows of the table in docs/disaggregation.md ---------------------------------------------


class Watched:
    """The verifier's worker; notes the rounds of each prompt."""

    def __init__(self, inner: Worker) -> None:
        self._inner = inner
        self.rounds: defaultdict[tuple[int, ...], list[Round]] = defaultdict(list)

    def run(self, step: Step) -> list[Verdict]:
        for work in step.rows:
            if work.draws:
                self.rounds[tuple(work.prompt)].append((len(work.output), work.guesses))
        return self._inner.run(step)


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


def target_bytes(split: Cluster) -> int:
    """Of one position: layers, key and value, heads, numbers, bytes of a number."""
    model = split.engine.model
    return model.layers * 2 * model.kv_heads * model.head_dim * 4


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


# --- faults ---------------------------------------------------------------------------------------------------------


class Storm:
    """Whatever may happen to hand-overs, drawn from one seed, while prompts come and go."""

    def __init__(self, made: Cluster, target: Target, seed: int) -> None:
        self.made, self.target = made, target
        self.rng = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.answers: dict[int, Answer] = {}
        self.asked: dict[int, tuple[int, ...]] = {}
        self.gone: set[int] = set()

    def run(self, events: int) -> None:
        """Between two events some turns pass: few enough to fall into the middle of a hand-over."""
        made = self.made
        made.connect()
        made.listen(self.answers)
        for _ in range(events):
            self.come()
            made.turns(self.rng.randrange(8))
            event = self.rng.choice(
                (self.client, self.client, self.give_up, self.kill, self.forget)
            )
            event()
            made.turns(self.rng.randrange(6))
        made.finish({key: each for key, each in self.answers.items() if key not in self.gone})

    def come(self) -> None:
        """A prompt, new or known."""
        made, prompt = self.made, tuple(self.rng.choice(self.target.prompts))
        key = self.happened["prompts"] = self.happened["prompts"] + 1
        self.answers[key] = Answer()
        self.asked[key] = prompt
        made.submit(Submit(key, prompt, Ending(OUTPUT)))

    def client(self) -> None:
        """One changes its mind."""
        living = [key for key, each in self.answers.items() if not each.done]
        if living:
            key = self.rng.choice(living)
            self.gone.add(key)
            self.made.say(Abort(key, "changed its mind"))
            self.happened["client"] += 1

    def give_up(self) -> None:
        """A prefill node will not go on, as soon as it has begun."""
        self.made.pool.clear_cache()
        self.come()
        for _ in range(10):
            self.made.turns(1)
            for node in self.made.prefill.values():
                for prompt in list(node.core.prompts.values()):
                    job = prompt.job
                    node.core._notes[job.link].append(node.core._giving.drop(job, "planned"))
                    node.core._forget(job, "aborted")
                    self.happened["give up"] += 1
                    return

    def kill(self) -> None:
        """A prefill process dies without a word, and another one comes at its address."""
        name = self.rng.choice(sorted(self.made.prefill))
        self.made.kill(name)
        self.made.start_prefill(name)
        self.happened["kill"] += 1

    def forget(self) -> None:
        """The verifier's caches are cleared: whole prompts travel again."""
        self.made.pool.clear_cache()
        self.happened["clear"] += 1


@pytest.mark.parametrize("events", [60, pytest.param(300, marks=pytest.mark.full)])
def test_aborts_from_everywhere_leave_nothing_and_change_nothing(
    target: Target, events: int
) -> None:
    split = cluster(target, prefill={"p0": 16, "p1": 32})
    storm = Storm(split, target, seed=3)
    storm.run(events)
    wanted = {
        tuple(prompt): each.tokens
        for prompt, each in zip(target.prompts, target.answers, strict=True)
    }
    for key, answer in storm.answers.items():
        said = wanted[storm.asked[key]]
        assert answer.tokens == (said[: len(answer.tokens)] if key in storm.gone else said)
    assert min(storm.happened[each] for each in ("client", "give up", "kill")) > events / 30
    outcomes = split.core.facts().counters["handovers"]
    assert min(outcomes[each] for each in ("taken", "dropped", "aborted")) > 0, outcomes
    [again] = split.generate([target.prompts[-2]], Ending(OUTPUT))  # at once
    assert again.tokens == target.answers[-2].tokens
    split.turns(1100)  # until the last link with a dead node is over
    level(split)
