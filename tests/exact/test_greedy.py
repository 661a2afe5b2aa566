"""Greedy text in float32 is the oracle's, token for token, whatever drafts and whatever happens to the drafter."""

from pathlib import Path
from typing import Final

import pytest

from drafter.config import DrafterConfig
from protocol.messages import Ending
from tests.cluster import Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target, scripted

LENGTHS: Final = (1, 2, 4, 8, 16)
METHODS: Final = ("suffix", "ngram", "standalone", "wrong", "scripted")


def drafter(method: str, target: Target, folder: Path) -> DrafterConfig:
    if method == "scripted":
        return scripted(folder, target, right=5)
    return DrafterConfig(
        node_id="drafter-0", method=method, model=target.folder, dtype="float32", context=0
    )


def cluster(target: Target, *drafters: DrafterConfig, draft_length: int) -> Cluster:
    return Cluster(
        target.folder, drafters, draft_length=draft_length, page_size=PAGE, max_chunk=CHUNK
    )


def expected(target: Target) -> list[list[int]]:
    return [answer.tokens for answer in target.answers]


def test_the_service_without_drafters_says_what_the_oracle_says(target: Target) -> None:
    plain = cluster(target, draft_length=0)
    answers = plain.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)
    assert plain.pool.free == plain.pool.pages


@pytest.mark.parametrize("draft_length", LENGTHS)
@pytest.mark.parametrize("method", METHODS)
def test_eight_requests_at_once(
    target: Target, tmp_path: Path, method: str, draft_length: int
) -> None:
    drafted = cluster(target, drafter(method, target, tmp_path), draft_length=draft_length)
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)
    drafted.settle()
    assert drafted.pool.free == drafted.pool.pages
    assert len(drafted.drafters["drafter-0"].core) == 0


@pytest.mark.parametrize("draft_length", [4, 16])
@pytest.mark.parametrize("method", METHODS)
def test_one_request_at_a_time(
    target: Target, tmp_path: Path, method: str, draft_length: int
) -> None:
    drafted = cluster(target, drafter(method, target, tmp_path), draft_length=draft_length)
    for prompt, answer in zip(target.prompts, target.answers, strict=True):
        assert drafted.generate([prompt], Ending(OUTPUT))[0].tokens == answer.tokens


def test_same_weights_are_nearly_always_right_and_wrong_ones_never(
    target: Target, tmp_path: Path
) -> None:
    """Without this, the tests above could pass with no draft ever looked at."""
    same = cluster(target, drafter("standalone", target, tmp_path), draft_length=4)
    accepted = [each.done for each in same.generate(target.prompts, Ending(OUTPUT))]
    rates = [
        done.statistics.accepted / done.statistics.drafted
        for done in accepted
        if done and done.statistics.drafted
    ]
    assert rates
    assert min(rates) > 0.8
    wrong = cluster(target, drafter("wrong", target, tmp_path), draft_length=4)
    for answer in wrong.generate(target.prompts, Ending(OUTPUT)):
        assert answer.done
        assert answer.done.statistics.drafted > 20
        assert answer.done.statistics.accepted <= 2


@pytest.mark.parametrize("method", ["suffix", "standalone"])
def test_a_drafter_that_is_killed_and_comes_back(
    target: Target, tmp_path: Path, method: str
) -> None:
    """Killed while everything runs, restarted while it still does: the text does not show it, the counters do."""
    drafted = cluster(target, drafter(method, target, tmp_path), draft_length=4)
    running = drafted.begin(target.prompts, Ending(OUTPUT))
    drafted.turns(12)
    drafted.kill("drafter-0")
    drafted.turns(4)
    drafted.start("drafter-0")
    answers = drafted.finish(running)
    assert [answer.tokens for answer in answers] == expected(target)
    again = drafted.generate(target.prompts[:1], Ending(OUTPUT))[0]
    assert again.done
    assert again.done.statistics.drafted > 0


def test_greedy_rule_serves_temperature_zero(target: Target, tmp_path: Path) -> None:
    drafted = Cluster(
        target.folder, [drafter("suffix", target, tmp_path)], rule="greedy", max_chunk=CHUNK
    )
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)


def test_few_pages_preempt_but_do_not_change_the_text(target: Target, tmp_path: Path) -> None:
    pages = max(map(len, target.prompts)) // PAGE + OUTPUT // PAGE + 6
    squeezed = Cluster(
        target.folder,
        [drafter("suffix", target, tmp_path)],
        pages=pages,
        page_size=PAGE,
        max_chunk=CHUNK,
    )
    answers = squeezed.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)
    assert squeezed.core.scheduler.preemptions > 0
    assert squeezed.pool.free == squeezed.pool.pages
