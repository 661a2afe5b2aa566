"""Rules that use laws, over the mesh: the law of the target by chi-square, and greedy text whatever is drawn."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import chi2

from drafter.config import DrafterConfig
from protocol.messages import Ending, Facts, Sampling
from tests.cluster import Answer, Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target
from tests.exact.test_sampled import LAW, chi_square, law_of_pairs
from tests.models import write_byte_llama
from verifier.logline import summary

COMPLETIONS: Final = 1500
BATCH: Final = 100
LENGTH: Final = 3


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft model that is not the target."""
    folder = tmp_path_factory.mktemp("other")
    write_byte_llama(folder, seed=8)
    return folder


@pytest.fixture(scope="module")
def near(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target with noise on its weights: a draft model that is right now and then."""
    folder = tmp_path_factory.mktemp("near")
    shutil.copytree(target.folder, folder, dirs_exist_ok=True)
    (file,) = folder.glob("*.safetensors")
    noise = torch.Generator().manual_seed(1)
    tensors = {
        name: tensor * (1 + 0.3 * torch.randn(tensor.shape, generator=noise))
        for name, tensor in load_file(file).items()
    }
    save_file(tensors, file, metadata={"format": "pt"})
    return folder


def drawing(target: Target, draft: Path, rule: str, **how: Any) -> Cluster:
    config = DrafterConfig(
        node_id="drafter-0",
        method="standalone",
        model=draft,
        dtype="float32",
        draft_sample_method="probabilistic",
    )
    settings: dict[str, Any] = {"draft_length": LENGTH, "page_size": PAGE, "max_chunk": 512}
    return Cluster(target.folder, [config], rule=rule, **settings | how)


def table(folder: Path, target: Target) -> DrafterConfig:
    """Draws what the target likes at the first position, in other proportions."""
    likely = Counter(pair for pair, _ in law_of_pairs(target.model, target.prompts[1]))
    shares = {token: 1.0 for token, _ in likely.most_common(6)}
    total = sum(shares.values())
    law = [[token, share / total] for token, share in shares.items()]
    file = folder / "laws.json"
    file.write_text(json.dumps({"default": law}))
    return DrafterConfig(node_id="drafter-0", method="drawn", script=file)


def pairs_of(cluster: Cluster, prompt: list[int], name: str) -> tuple[Counter[Any], list[Answer]]:
    """The first two of four tokens: drafts are tested from the second on, where two more may follow it."""
    rng = random.Random(name)
    pairs: Counter[Any] = Counter()
    answers: list[Answer] = []
    for _ in range(COMPLETIONS // BATCH):
        samplings = [
            Sampling(temperature=LAW.temperature, top_k=LAW.top_k, seed=rng.getrandbits(64))
            for _ in range(BATCH)
        ]
        answers += cluster.generate([prompt] * BATCH, Ending(4, ignore_eos=True), samplings)
    for answer in answers:
        pairs[answer.tokens[0], answer.tokens[1]] += 1
    return pairs, answers


@pytest.mark.parametrize("method", ["standalone", "drawn"])
@pytest.mark.parametrize("rule", ["ratio", "block", "threshold"])
def test_the_law_of_two_tokens_is_the_targets(
    target: Target, near: Path, tmp_path: Path, rule: str, method: str
) -> None:
    prompt = target.prompts[1]
    how: dict[str, Any] = {"pages": 1024, "max_running": BATCH}
    if method == "standalone":
        cluster = drawing(target, near, rule, **how)
    else:
        cluster = Cluster(
            target.folder,
            [table(tmp_path, target)],
            rule=rule,
            draft_length=LENGTH,
            page_size=PAGE,
            max_chunk=512,
            **how,
        )
    pairs, answers = pairs_of(cluster, prompt, f"{rule} {method}")
    law = law_of_pairs(target.model, prompt)
    assert set(pairs) <= set(law), "a token of probability zero was drawn"
    statistic, freedom = chi_square(pairs, law, COMPLETIONS)
    assert statistic < chi2.isf(1e-4, freedom), f"{statistic} with {freedom} degrees of freedom"
    assert sum(each.done.statistics.drafted for each in answers if each.done) > COMPLETIONS
    accepted = sum(each.done.statistics.accepted for each in answers if each.done)
    often = method == "standalone" and rule != "threshold"  # which makes no use of laws
    assert accepted > (COMPLETIONS / 10 if often else 0)


@pytest.mark.parametrize("rule", ["ratio", "block", "threshold"])
@pytest.mark.parametrize("draft", ["itself", "other"])
def test_greedy_text_is_the_targets_own(target: Target, other: Path, rule: str, draft: str) -> None:
    folder = target.folder if draft == "itself" else other
    cluster = drawing(target, folder, rule, max_chunk=CHUNK)
    answers = cluster.generate(target.prompts, Ending(OUTPUT, ignore_eos=True))
    assert [each.tokens for each in answers] == [each.tokens for each in target.answers]


@pytest.mark.parametrize("rule", ["ratio", "block"])
def test_a_drafter_that_is_the_target_is_nearly_always_right(target: Target, rule: str) -> None:
    """Truncated to 64 of 261 tokens, its law is not quite the target's."""
    cluster = drawing(target, target.folder, rule)
    samplings = [Sampling(temperature=1.0, seed=seed) for seed in range(8)]
    answers = cluster.generate(target.prompts, Ending(OUTPUT, ignore_eos=True), samplings)
    statistics = [answer.done.statistics for answer in answers if answer.done]
    drafted = sum(each.drafted for each in statistics)
    assert drafted > 100
    assert sum(each.accepted for each in statistics) > 0.9 * drafted


@pytest.mark.parametrize("rule", ["ratio", "block", "threshold", "match"])
def test_a_request_seed_decides_its_text(target: Target, other: Path, rule: str) -> None:
    samplings = [Sampling(temperature=1.0, seed=seed) for seed in range(8)]

    def texts() -> list[list[int]]:
        cluster = drawing(target, other, rule)
        ending = Ending(20, ignore_eos=True)
        return [each.tokens for each in cluster.generate(target.prompts, ending, samplings)]

    assert texts() == texts()


def test_drafters_are_asked_for_laws_only_by_rules_that_use_them(target: Target) -> None:
    """Under `match` they guess the token that the target would draw, which is right more often."""
    samplings = [Sampling(temperature=1.0, seed=seed) for seed in range(8)]
    cluster = drawing(target, target.folder, "match")
    answers = cluster.generate(target.prompts, Ending(OUTPUT, ignore_eos=True), samplings)
    statistics = [answer.done.statistics for answer in answers if answer.done]
    assert sum(each.accepted for each in statistics) == sum(each.drafted for each in statistics)


def test_a_curve_is_kept_to_whatever_is_drafted(target: Target) -> None:
    config = DrafterConfig(node_id="drafter-0", method="wrong")
    cluster = Cluster(
        target.folder,
        [config],
        draft_length=4,
        rule="synthetic",
        synthetic={"rates": (0.9, 0.6, 0.6, 0.1)},
        page_size=PAGE,
        pages=1024,
        max_chunk=512,
        max_running=32,
    )
    samplings = [Sampling(temperature=1.0, seed=seed) for seed in range(32)]
    answers = cluster.generate(target.prompts * 4, Ending(60, ignore_eos=True), samplings)
    rounds = [
        (drafted, accepted)
        for answer in answers
        if answer.done
        for drafted, accepted, times in answer.done.statistics.history
        for _ in range(times)
        if drafted == 4
    ]
    share = [
        sum(accepted >= least for _, accepted in rounds) / len(rounds) for least in range(1, 5)
    ]
    assert len(rounds) > 300
    assert share == pytest.approx([0.9, 0.6, 0.6, 0.1], abs=0.08)


@pytest.mark.parametrize(("rule", "label"), [("ratio", ""), ("synthetic", "synthetic: ")])
def test_answers_and_facts_tell_of_a_lossy_rule(target: Target, rule: str, label: str) -> None:
    curve: dict[str, Any] = {"synthetic": {"length": 2.0}} if rule == "synthetic" else {}
    cluster = drawing(target, target.folder, rule, **curve)
    (answer,) = cluster.generate(target.prompts[:1], Ending(9, ignore_eos=True))
    assert answer.done
    assert answer.done.statistics.lossy.startswith(label)
    assert bool(answer.done.statistics.lossy) == bool(label)
    facts = cluster.core.facts()
    assert facts.counters["lossy_tokens"] == ({rule: 9} if label else {})
    assert summary(Facts(), facts, 1.0).endswith(f", Lossy by rule: {rule}") == bool(label)
