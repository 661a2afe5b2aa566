"""Sampled text: the same path for every draft length, drafter, batch and restart, and the law of the target."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest
import torch
import transformers
from scipy.stats import chi2

from drafter.config import DrafterConfig
from protocol.messages import Ending, Sampling
from tests.cluster import Answer, Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target

SAMPLINGS: Final = (
    Sampling(temperature=0.8, seed=1),
    Sampling(temperature=1.0, top_p=0.9, seed=2),
    Sampling(temperature=1.3, top_k=20, seed=2**63 + 5),
    Sampling(temperature=0.5, min_p=0.05, seed=4),
    Sampling(temperature=0.0, seed=5),
    Sampling(temperature=1.0, top_k=5, top_p=0.7, min_p=0.1, seed=6),
    Sampling(temperature=2.0, seed=7),
    Sampling(temperature=0.7, seed=7),
)


def cluster(target: Target, method: str, draft_length: int) -> Cluster:
    config = DrafterConfig(node_id="drafter-0", method=method, model=target.folder, dtype="float32")
    return Cluster(
        target.folder, [config], draft_length=draft_length, page_size=PAGE, max_chunk=CHUNK
    )


def texts(answers: Sequence[Answer]) -> list[list[int]]:
    return [answer.tokens for answer in answers]


@pytest.fixture(scope="module")
def plain(target: Target) -> list[list[int]]:
    """One request at a time, no drafts."""
    alone = cluster(target, "suffix", 0)
    return [
        alone.generate([prompt], Ending(OUTPUT, ignore_eos=True), [sampling])[0].tokens
        for prompt, sampling in zip(target.prompts, SAMPLINGS, strict=True)
    ]


@pytest.mark.parametrize("draft_length", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("method", ["suffix", "ngram", "standalone", "wrong"])
def test_same_seed_same_text(
    target: Target, plain: list[list[int]], method: str, draft_length: int
) -> None:
    drafted = cluster(target, method, draft_length)
    ending = Ending(OUTPUT, ignore_eos=True)
    assert texts(drafted.generate(target.prompts, ending, SAMPLINGS)) == plain


def test_same_seed_same_text_when_the_drafter_restarts(
    target: Target, plain: list[list[int]]
) -> None:
    drafted = cluster(target, "standalone", 4)
    running = drafted.begin(target.prompts, Ending(OUTPUT, ignore_eos=True), SAMPLINGS)
    drafted.turns(10)
    drafted.kill("drafter-0")
    drafted.turns(3)
    drafted.start("drafter-0")
    assert texts(drafted.finish(running)) == plain


def test_other_seeds_give_other_texts(target: Target, plain: list[list[int]]) -> None:
    drafted = cluster(target, "standalone", 4)
    reseeded = [Sampling(temperature=1.0, seed=1000 + index) for index in range(8)]
    ending = Ending(OUTPUT, ignore_eos=True)
    assert all(
        mine != other
        for mine, other in zip(
            texts(drafted.generate(target.prompts, ending, reseeded)), plain, strict=True
        )
    )


COMPLETIONS: Final = 5000
BATCH: Final = 100
LAW: Final = Sampling(temperature=1.0, top_k=12)


@pytest.mark.parametrize(
    ("method", "draft_length"), [("suffix", 0), ("standalone", 4), ("wrong", 4)]
)
def test_the_law_of_two_tokens_is_the_targets(
    target: Target, method: str, draft_length: int
) -> None:
    """5,000 completions of two tokens against the exact law that `transformers` gives, by chi-square."""
    prompt = target.prompts[1]
    drawn = cluster_of_many(target, method, draft_length)
    rng = random.Random(f"{method} {draft_length}")
    pairs: Counter[tuple[int, int]] = Counter()
    for _ in range(COMPLETIONS // BATCH):
        samplings = [
            Sampling(temperature=LAW.temperature, top_k=LAW.top_k, seed=rng.getrandbits(64))
            for _ in range(BATCH)
        ]
        ending = Ending(2, ignore_eos=True)
        for answer in drawn.generate([prompt] * BATCH, ending, samplings):
            pairs[answer.tokens[0], answer.tokens[1]] += 1
    law = law_of_pairs(target.model, prompt)
    assert set(pairs) <= set(law), "a token of probability zero was drawn"
    statistic, freedom = chi_square(pairs, law, COMPLETIONS)
    assert statistic < chi2.isf(1e-4, freedom), f"{statistic} with {freedom} degrees of freedom"


def cluster_of_many(target: Target, method: str, draft_length: int) -> Cluster:
    config = DrafterConfig(node_id="drafter-0", method=method, model=target.folder, dtype="float32")
    return Cluster(
        target.folder,
        [config],
        draft_length=draft_length,
        page_size=PAGE,
        pages=1024,
        max_chunk=512,
        max_running=BATCH,
    )


def law_of_pairs(model: Any, prompt: Sequence[int]) -> dict[tuple[int, int], float]:  # noqa: ANN401
    """P(first) x P(second | first) after the filters of `transformers`, in float64."""
    first = _law(model, [list(prompt)])[0]
    firsts = [token for token, p in enumerate(first.tolist()) if p > 0]
    seconds = _law(model, [[*prompt, token] for token in firsts])
    return {
        (token, second): float(first[token]) * p
        for token, row in zip(firsts, seconds, strict=True)
        for second, p in enumerate(row.tolist())
        if p > 0
    }


def _law(model: Any, lines: list[list[int]]) -> torch.Tensor:  # noqa: ANN401
    ids = torch.tensor(lines)
    with torch.no_grad():
        logits = model(ids).logits[:, -1].double()
    filters = transformers.LogitsProcessorList(
        [
            transformers.TemperatureLogitsWarper(LAW.temperature),
            transformers.TopKLogitsWarper(LAW.top_k),
        ]
    )
    result: torch.Tensor = filters(ids, logits).softmax(dim=-1)
    return result


def chi_square(
    counts: Counter[tuple[int, int]], law: dict[tuple[int, int], float], total: int
) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; cells that expect fewer than 5 are pooled."""
    cells: list[tuple[float, float]] = []
    rest_seen = rest_expected = 0.0
    for pair, p in law.items():
        seen, expected = counts[pair], p * total
        if expected < 5:
            rest_seen, rest_expected = rest_seen + seen, rest_expected + expected
        else:
            cells.append((seen, expected))
    if rest_expected >= 5:
        cells.append((rest_seen, rest_expected))
    return sum((seen - expected) ** 2 / expected for seen, expected in cells), len(cells) - 1
