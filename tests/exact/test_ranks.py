"""Greedy text of a target over two ranks is that of `transformers`: with drafts, few pages, shared pages, and heads."""

from pathlib import Path
from typing import Any

from engine.runner import Engine
from protocol.messages import Ending
from tests.cluster import Cluster
from tests.engine.threads_as_ranks import ThreadRanks, following
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target, scripted
from tests.exact.test_hidden import drafter


def test_drafts_preemption_and_shared_pages(target: Target, tmp_path: Path) -> None:
    ranks = ThreadRanks.group(2)
    drafted = _cluster(target, ranks, [scripted(tmp_path, target, right=5)], pages=18)
    other = Engine.load(target.folder, drafted.engine.config, ranks[1])
    with following(ranks, [other]):
        answers = drafted.generate(target.prompts, Ending(OUTPUT))
        assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers]
        assert drafted.core.scheduler.preemptions > 0
        told = len(ranks[0].said)
        again = drafted.generate(target.prompts[4:5], Ending(OUTPUT))[0]
    assert again.tokens == target.answers[4].tokens
    assert again.done is not None
    assert again.done.statistics.accepted > 0
    assert len(ranks[0].said) > told + 1
    whole = target.model.config.num_key_value_heads
    assert drafted.engine.kv[0].shape[3] + other.kv[0].shape[3] == whole
    assert drafted.pool.free == 18


def test_a_head_has_the_hidden_states_of_rank_0(target: Target, tmp_path: Path) -> None:
    ranks = ThreadRanks.group(2)
    head, features = drafter(tmp_path, target, "eagle3")
    drafted = _cluster(target, ranks, [head], features=features)
    other = Engine.load(target.folder, drafted.engine.config, ranks[1])
    with following(ranks, [other]):
        answers = drafted.generate(target.prompts[:3], Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers[:3]]
    assert min(answer.done.statistics.drafted for answer in answers if answer.done) > 0


def _cluster(target: Target, ranks: list[ThreadRanks], drafters: Any, **more: Any) -> Cluster:  # noqa: ANN401
    return Cluster(
        target.folder,
        drafters,
        draft_length=4,
        page_size=PAGE,
        max_chunk=CHUNK,
        words=ranks[0],
        **more,
    )
