"""Draft heads under rules that use laws: the law of the target by chi-square, and greedy text whatever is drawn."""

import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from scipy.stats import chi2

from drafter.config import DrafterConfig
from drafter.draws import Manner, manner
from orchestrator.heads import captured
from protocol.messages import Ending, Sampling
from tests import heads
from tests.cluster import Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target
from tests.exact.test_sampled import LAW, chi_square, law_of_pairs

COMPLETIONS: Final = 1500
BATCH: Final = 100
KNOWN: Final = 24
"""Tokens that a head knows: random heads guess what the target may say only where they know little else."""

HEADS: Final[dict[str, tuple[str, Callable[[Path], Path]]]] = {
    "eagle3": ("eagle3", lambda folder: heads.eagle_3(folder, vocab=KNOWN)),
    "dflash": ("dflash", lambda folder: heads.speculators_dflash(folder, vocab=KNOWN)),
    "dspark": ("dspark", lambda folder: heads.speculators_dspark(folder, vocab=KNOWN)),
}


def drawing(
    target: Target, folder: Path, name: str, rule: str, *, overlap: bool = False, **how: Any
) -> Cluster:
    method, write = HEADS[name]
    firsts: Counter[int] = Counter()
    for (first, second), share in law_of_pairs(target.model, target.prompts[1]).items():
        firsts[second] += share  # type: ignore[assignment]
        firsts[first] += share  # type: ignore[assignment]
    config = DrafterConfig(
        node_id="drafter-0",
        method=method,
        model=heads.speaks(write(folder / name), [token for token, _ in firsts.most_common(KNOWN)]),
        target=target.folder,
        dtype="float32",
        overlap=overlap,
        draft_sample_method="probabilistic",
    )
    settings: dict[str, Any] = {"draft_length": 3, "page_size": PAGE, "max_chunk": CHUNK}
    return Cluster(
        target.folder,
        [config],
        rule=rule,
        features=captured(config),
        overlap=overlap,
        **settings | how,
    )


def told(cluster: Cluster, name: str) -> int:
    return sum(cluster.core.facts().counters[name].values())


FEW: Final = {("ratio", "eagle3", True), ("block", "dflash", True), ("block", "dspark", False)}
"""Each head, each rule, and tails that are replaced."""


@pytest.mark.parametrize(
    ("rule", "name", "overlap"),
    [
        pytest.param(*each, marks=[] if each in FEW else pytest.mark.full)
        for each in product(["ratio", "block"], HEADS, [False, True])
    ],
)
def test_the_law_of_two_tokens_is_the_targets(
    target: Target, tmp_path: Path, rule: str, name: str, *, overlap: bool
) -> None:
    """The second token is the first that a head can guess; with overlap its tails are replaced again and again."""
    prompt = target.prompts[1]
    how: dict[str, Any] = {"pages": 1024, "max_running": BATCH, "max_chunk": 512}
    cluster = drawing(target, tmp_path, name, rule, overlap=overlap, **how)
    rng = random.Random(f"{rule} {name} {overlap}")
    pairs: Counter[tuple[int, int]] = Counter()
    for _ in range(COMPLETIONS // BATCH):
        samplings = [
            Sampling(temperature=LAW.temperature, top_k=LAW.top_k, seed=rng.getrandbits(64))
            for _ in range(BATCH)
        ]
        for answer in cluster.generate([prompt] * BATCH, Ending(4, ignore_eos=True), samplings):
            pairs[answer.tokens[0], answer.tokens[1]] += 1
    law = law_of_pairs(target.model, prompt)
    assert set(pairs) <= set(law), "a token of probability zero was drawn"
    statistic, freedom = chi_square(pairs, law, COMPLETIONS)
    assert statistic < chi2.isf(1e-4, freedom), f"{statistic} with {freedom} degrees of freedom"
    assert told(cluster, "draft_tokens") > COMPLETIONS / 2
    assert told(cluster, "accepted_tokens") > 0.05 * told(cluster, "draft_tokens")


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("rule", ["ratio", "block"])
def test_greedy_text_is_the_targets_own(
    target: Target, tmp_path: Path, rule: str, name: str, *, overlap: bool
) -> None:
    """Beside requests that sample."""
    cluster = drawing(target, tmp_path, name, rule, overlap=overlap)
    samplings = [
        Sampling(temperature=1.0, seed=place) if place % 2 else Sampling()
        for place in range(len(target.prompts))
    ]
    answers = cluster.generate(target.prompts, Ending(OUTPUT, ignore_eos=True), samplings)
    assert [each.tokens for each in answers[::2]] == [each.tokens for each in target.answers[::2]]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("eagle3", Manner("one by one", "largest")),
        ("standalone", Manner("one by one", "largest")),
        ("dflash", Manner("at once", "largest")),
        ("dspark", Manner("one by one", "head")),
        ("suffix", Manner("certain", "token")),
    ],
)
def test_what_is_said_of_a_method_is_for_whoever_judges(method: str, expected: Manner) -> None:
    config = DrafterConfig(method=method, draft_sample_method="probabilistic")
    assert manner(config) == expected
    assert manner(DrafterConfig(method=method)) == Manner("certain", "token")


def test_methods_that_take_turns_are_as_careful_as_the_worst_of_them() -> None:
    def mixed(*names: str) -> Manner:
        return manner(
            DrafterConfig(method="mixed", mixed=names, draft_sample_method="probabilistic")
        )

    assert mixed("suffix", "ngram") == Manner("certain", "token")
    assert mixed("suffix", "dspark") == Manner("one by one", "head")
    assert mixed("suffix", "dflash") == Manner("one by one", "largest")
