"""Prompts that prefill nodes compute, over the mesh: the text is the oracle's."""

from collections.abc import Callable

import pytest

from protocol.messages import Ending
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target
from tests.exact.splits import cluster, handed, level, target_bytes
from tests.exact.test_hidden import count
from tests.prefill import EAGER
from verifier.prefill import Worker
from verifier.step import Step


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

    def __init__(self, inner: Worker, look: Callable[[int, int], None]) -> None:
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
