"""Whatever happens to hand-overs while prompts come and go: nothing is left, no token is wrong."""

import random
from collections import Counter

import pytest

from protocol.messages import Abort, Ending, Submit
from tests.cluster import Answer, Cluster
from tests.exact.conftest import OUTPUT, Target
from tests.exact.splits import cluster, level


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
                    node.core._forget(job, "aborted", self.made.now)
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
