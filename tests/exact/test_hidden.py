"""Heads that read the target's hidden states, over the mesh: the text is the oracle's whatever they guess."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from drafter.config import DrafterConfig, HiddenConfig
from orchestrator.heads import captured
from protocol.messages import Ending, Sampling
from tests import heads
from tests.cluster import Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target
from verifier.config import FeaturesConfig

HEADS: Final[dict[str, tuple[str, Callable[[Path], Path]]]] = {
    "eagle3": ("eagle3", heads.eagle_3),
    "eagle1": ("eagle3", heads.eagle_1),
    "dflash": ("dflash", heads.zlab_dflash),
    "dspark": ("dspark", heads.deepspec_dspark),
}


def drafter(
    folder: Path, target: Target, name: str, *, projected: bool = True, overlap: bool = True
) -> tuple[DrafterConfig, FeaturesConfig]:
    """A head, and what its verifier must keep for it."""
    method, write = HEADS[name]
    config = DrafterConfig(
        node_id="drafter-0",
        method=method,
        model=write(folder / name),
        target=target.folder,
        dtype="float32",
        overlap=overlap,
        hidden=HiddenConfig(projected=projected),
    )
    return config, captured(config)


def cluster(
    target: Target, config: DrafterConfig, features: FeaturesConfig, draft_length: int, **more: Any
) -> Cluster:
    return Cluster(
        target.folder,
        [config],
        draft_length=draft_length,
        page_size=PAGE,
        max_chunk=CHUNK,
        features=features,
        overlap=config.overlap,
        **more,
    )


@pytest.mark.parametrize("draft_length", [1, 4, 15])
@pytest.mark.parametrize("name", HEADS)
def test_no_head_changes_the_text(
    target: Target, tmp_path: Path, name: str, draft_length: int
) -> None:
    drafted = cluster(target, *drafter(tmp_path, target, name), draft_length)
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers]
    assert min(answer.done.statistics.drafted for answer in answers if answer.done) > 0


INTERRUPTED: Final = ("eagle3", "dspark")


@pytest.mark.parametrize("name", INTERRUPTED)
def test_a_drafter_that_is_killed_and_comes_back(target: Target, tmp_path: Path, name: str) -> None:
    """It joins in the middle, is sent the rows of the whole text from the verifier's pages, and drafts again."""
    drafted = cluster(target, *drafter(tmp_path, target, name), 4)
    running = drafted.begin(target.prompts, Ending(OUTPUT))
    drafted.turns(20)
    drafted.kill("drafter-0")
    drafted.turns(4)
    before = count(drafted, "draft_tokens")
    drafted.start("drafter-0")
    answers = drafted.finish(running)
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers]
    assert count(drafted, "draft_tokens") > before


@pytest.mark.parametrize("name", INTERRUPTED)
def test_few_pages_preempt_but_do_not_change_the_text(
    target: Target, tmp_path: Path, name: str
) -> None:
    """Features of evicted pages are computed again with their KV."""
    pages = max(map(len, target.prompts)) // PAGE + OUTPUT // PAGE + 6
    squeezed = cluster(target, *drafter(tmp_path, target, name), 4, pages=pages)
    answers = squeezed.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers]
    assert squeezed.core.scheduler.preemptions > 0
    assert squeezed.pool.free == squeezed.pool.pages


@pytest.mark.parametrize("name", INTERRUPTED)
def test_a_new_mirror_may_be_told_of_recent_positions_only(
    target: Target, tmp_path: Path, name: str
) -> None:
    config, features = drafter(tmp_path, target, name)
    recent = features.model_copy(update={"recent": 8})
    drafted = cluster(target, config, recent, 4)
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers]
    whole = sum(len(prompt) + OUTPUT for prompt in target.prompts)
    assert 0 < count(drafted, "hidden_rows") < whole - 100


def test_a_prompt_in_the_prefix_cache_brings_its_rows(target: Target, tmp_path: Path) -> None:
    """A drafter that never saw the prompt computed is sent the rows of it that lie in shared pages."""
    drafted = cluster(target, *drafter(tmp_path, target, "dflash"), 4)
    longest = max(target.prompts, key=len)
    first = drafted.generate([longest], Ending(OUTPUT))[0]
    drafted.kill("drafter-0")
    drafted.start("drafter-0")
    sent = count(drafted, "hidden_rows")
    again = drafted.generate([longest], Ending(OUTPUT))[0]
    assert again.done
    assert again.done.statistics.cached_tokens >= PAGE
    assert again.tokens == first.tokens
    assert count(drafted, "hidden_rows") - sent >= len(longest)
    assert again.done.statistics.drafted > 0


def test_raw_states_and_projected_ones_make_the_same_guesses(
    target: Target, tmp_path: Path
) -> None:
    """And what travels differs by the width: two states of 64 numbers, or one row of 64."""
    said = []
    for projected in (True, False):
        one = drafter(
            tmp_path / str(projected), target, "dflash", projected=projected, overlap=False
        )
        drafted = cluster(target, *one, 4)
        done = [each.done for each in drafted.generate(target.prompts, Ending(OUTPUT))]
        said.append([each.statistics.history for each in done if each])
        rows = count(drafted, "hidden_rows")
        assert count(drafted, "hidden_bytes") == rows * heads.HIDDEN * 4 * (1 if projected else 2)
    assert said[0] == said[1]


def test_what_does_not_agree_is_refused_with_both_texts(
    target: Target, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, features = drafter(tmp_path, target, "dflash")
    other = features.model_copy(update={"states": (0, 1)})
    refusing = cluster(target, config, other, 4)
    with caplog.at_level(logging.WARNING):
        refusing.settle()
    assert not len(refusing.core.drafting.roster)
    assert "drafter-0 needs hidden states 1,2 projected by" in caplog.text
    assert "verifier-0 gives hidden states 0,1 projected by" in caplog.text


def test_a_verifier_that_keeps_nothing_is_refused(target: Target, tmp_path: Path) -> None:
    config, _ = drafter(tmp_path, target, "eagle1")
    refusing = cluster(target, config, FeaturesConfig(), 4)
    refusing.settle()
    assert refusing.core.counters["links_rejected"] > 0


def test_others_draft_for_a_verifier_that_keeps_states(target: Target, tmp_path: Path) -> None:
    """And are sent none."""
    _, features = drafter(tmp_path, target, "eagle3")
    plain = DrafterConfig(node_id="drafter-0", method="suffix")
    drafted = cluster(target, plain, features, 4)
    answers = drafted.generate(target.prompts[:3], Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers[:3]]
    assert count(drafted, "hidden_rows") == 0


def count(cluster: Cluster, name: str) -> int:
    return sum(cluster.core.facts().counters[name].values())


@pytest.mark.parametrize("name", ["eagle3", "dflash", "dspark"])
def test_sampled_text_is_what_plain_decoding_draws(
    target: Target, tmp_path: Path, name: str
) -> None:
    """Half of the requests sample, beside greedy ones, and none of it depends on who drafts."""
    drawn = Sampling(temperature=0.9, top_p=0.9, seed=5)
    samplings = [drawn if index % 2 else Sampling() for index in range(len(target.prompts))]
    plain = Cluster(target.folder, draft_length=0, page_size=PAGE, max_chunk=CHUNK)
    drafted = cluster(target, *drafter(tmp_path, target, name), 4)
    said = [
        [answer.tokens for answer in each.generate(target.prompts, Ending(OUTPUT), samplings)]
        for each in (plain, drafted)
    ]
    assert said[0] == said[1]
    assert count(drafted, "draft_tokens") > 0


@pytest.mark.parametrize("name", HEADS)
def test_heads_draft_in_bfloat16(target: Target, tmp_path: Path, name: str) -> None:
    config, _ = drafter(tmp_path, target, name, overlap=False)
    config = config.model_copy(update={"dtype": "bfloat16"})
    drafted = cluster(target, config, captured(config), 4, dtype="bfloat16")
    answers = drafted.generate(target.prompts[:4], Ending(OUTPUT))
    assert min(each.done.statistics.drafted for each in answers if each.done) > OUTPUT
