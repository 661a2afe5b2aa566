"""Sampling against transformers' filters, against numpy, and against the laws it must follow."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.errors import EngineError
from engine.inversion import first_above, invert
from engine.philox import Role, uniforms
from engine.sampling import SORTED, SamplingParams, sample, transform

V = 300


def draws(params: SamplingParams, logits_V: torch.Tensor, count: int) -> np.ndarray:
    """How often each token is drawn in `count` rows with the same logits."""
    numbers = uniforms(params.seed, 0, np.arange(count), Role.TARGET)
    tokens = sample(logits_V.expand(count, -1), [params] * count, numbers)
    return np.bincount(tokens.numpy(), minlength=logits_V.numel())


def check_law(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Chi-square over the tokens that are expected at least five times, the others together."""
    assert not counts[probabilities == 0].any()
    expected = probabilities * counts.sum()
    often = expected >= 5
    pairs = [*zip(counts[often], expected[often], strict=True)]
    if expected[~often].sum() > 5:
        pairs.append((counts[~often].sum(), expected[~often].sum()))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs)
    degrees = len(pairs) - 1
    # Wilson and Hilferty: the cube root of chi-square over its degrees is close to normal.
    normal = ((statistic / degrees) ** (1 / 3) - 1 + 2 / (9 * degrees)) / (2 / (9 * degrees)) ** 0.5
    assert normal < 3.3, f"chi-square {statistic:.1f} at {degrees} degrees"


def by_transformers(logits_NV: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    rows = []
    for logits_V, each in zip(logits_NV, params, strict=True):
        scores = TemperatureLogitsWarper(each.temperature)(None, logits_V[None])
        if each.top_k:
            scores = TopKLogitsWarper(each.top_k)(None, scores)
        if each.top_p < 1.0:
            scores = TopPLogitsWarper(each.top_p)(None, scores)
        if each.min_p:
            scores = MinPLogitsWarper(each.min_p)(None, scores)
        rows.append(scores.softmax(dim=-1))
    return torch.cat(rows)


def mixed(count: int) -> list[SamplingParams]:
    random = np.random.default_rng(1)
    return [
        SamplingParams(
            temperature=float(random.uniform(0.2, 2.0)),
            top_k=int(random.choice([0, 1, 5, 40, 10_000])),
            top_p=float(random.choice([1.0, 0.95, 0.6, 0.05])),
            min_p=float(random.choice([0.0, 0.02, 0.3])),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_filters_in_every_combination_agree_with_transformers(spread: float) -> None:
    torch.manual_seed(0)
    params = mixed(200)
    logits_NV = spread * torch.randn(len(params), 1000)
    ours, theirs = transform(logits_NV, params), by_transformers(logits_NV, params)
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)
    assert ours.dtype == torch.float32


def test_a_nucleus_larger_than_what_is_sorted_first() -> None:
    torch.manual_seed(0)
    params = [SamplingParams(temperature=1.0, top_p=share) for share in (0.5, 0.9, 0.999)]
    logits_NV = 0.5 * torch.randn(3, 4 * SORTED)
    ours, theirs = transform(logits_NV, params), by_transformers(logits_NV, params)
    assert (ours > 0).sum(dim=-1).min() > SORTED
    # transformers adds up in float32, which moves the boundary by a few of the tokens.
    assert ((ours > 0) != (theirs > 0)).sum(dim=-1).max() < 10
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=0)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=1),
        SamplingParams(temperature=0.6, seed=2),
        SamplingParams(temperature=1.5, top_k=7, seed=3),
        SamplingParams(temperature=1.0, top_p=0.8, seed=4),
        SamplingParams(temperature=1.0, min_p=0.1, seed=5),
        SamplingParams(temperature=1.3, top_k=40, top_p=0.9, min_p=0.01, seed=6),
    ],
)
def test_tokens_follow_the_law(params: SamplingParams) -> None:
    torch.manual_seed(0)
    logits_V = 2.0 * torch.randn(V)
    law = by_transformers(logits_V[None], [params])[0].double()
    check_law(draws(params, logits_V, 20_000), (law / law.sum()).numpy())


def test_a_token_is_the_inverse_of_the_distribution_function() -> None:
    random = np.random.default_rng(0)
    logits_NV = torch.from_numpy(random.normal(size=(64, 1000)).astype(np.float32))
    numbers = random.uniform(size=64)
    weights = np.exp(logits_NV.numpy().astype(np.float64))
    cumulative = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    expected = (cumulative <= numbers[:, None]).sum(axis=1)
    tokens = sample(logits_NV, [SamplingParams(temperature=1.0)] * 64, numbers)
    assert tokens.tolist() == expected.tolist()


def test_what_has_no_weight_is_never_drawn() -> None:
    lowest, highest = np.nextafter(0, 1), np.nextafter(1, 0)
    for V_ in (1, 5, 255, 256, 257, 1000):
        for place in {0, V_ // 2, V_ - 1}:
            weights_NV = torch.zeros(3, V_)
            weights_NV[:, place] = 1e-30
            numbers = torch.tensor([lowest, 0.5, highest], dtype=torch.float64)
            assert invert(weights_NV, numbers).tolist() == [place] * 3


def test_the_ends_of_the_range_are_the_first_and_the_last_weight() -> None:
    weights_NV = torch.rand(2, 777)
    weights_NV[:, :3] = 0.0
    weights_NV[:, 700:] = 0.0
    numbers = torch.tensor([np.nextafter(0, 1), np.nextafter(1, 0)], dtype=torch.float64)
    assert invert(weights_NV, numbers).tolist() == [3, 699]


def test_a_number_that_rounding_pushed_out_of_the_range() -> None:
    cumulative = np.array([0.0, 0.25, 0.25, 1.0, 1.0])
    assert [first_above(cumulative, wanted) for wanted in (-1e-9, 0.0, 0.25, 1.0, 1.1)] == [
        1,
        1,
        3,
        3,
        3,
    ]


def test_greedy_takes_the_lowest_of_equal_tokens() -> None:
    logits_NV = torch.zeros(3, 70_000)
    logits_NV[0, [17, 40_000, 69_999]] = 2.0
    logits_NV[2, [69_998, 69_999]] = 2.0
    params = [SamplingParams()] * 3
    assert sample(logits_NV, params, [0.9] * 3).tolist() == [17, 0, 69_998]
    probs_NV = transform(logits_NV, params)
    assert probs_NV.sum(dim=-1).tolist() == [1.0] * 3
    assert probs_NV.argmax(dim=-1).tolist() == [17, 0, 69_998]


def test_greedy_and_drawn_rows_mix() -> None:
    torch.manual_seed(0)
    logits_NV = torch.randn(80, V)
    drawn = SamplingParams(temperature=1.0)
    params = [SamplingParams() if row % 3 else drawn for row in range(80)]
    numbers = uniforms(0, 0, np.arange(80), Role.TARGET)
    alone = [
        int(sample(logits_NV[row : row + 1], params[row : row + 1], numbers[row : row + 1]))
        for row in range(80)
    ]
    assert sample(logits_NV, params, numbers).tolist() == alone


def test_equally_likely_tokens_at_a_boundary_are_all_kept() -> None:
    logits_NV = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]])
    top_k = transform(logits_NV, [SamplingParams(temperature=1.0, top_k=2)])
    top_p = transform(logits_NV, [SamplingParams(temperature=1.0, top_p=0.5)])
    assert (top_k > 0).tolist() == [[False, True, True, True, True, False]]
    assert torch.equal(top_k > 0, top_p > 0)


def test_the_likeliest_token_is_always_kept() -> None:
    logits_NV = torch.zeros(1, V)
    logits_NV[0, 9] = 50.0
    strict = SamplingParams(temperature=1.0, top_k=1, top_p=1e-9, min_p=1.0)
    assert transform(logits_NV, [strict])[0, 9] == 1.0


def test_logits_are_not_changed() -> None:
    logits_NV = torch.randn(4, V)
    before_NV = logits_NV.clone()
    params = [SamplingParams(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1)] * 4
    sample(logits_NV, params, [0.5] * 4)
    transform(logits_NV, params)
    assert torch.equal(logits_NV, before_NV)


def test_masked_tokens_and_tiny_temperatures() -> None:
    logits_NV = torch.randn(2, V)
    logits_NV[:, ::2] = -torch.inf
    params = [SamplingParams(temperature=1e-6), SamplingParams(temperature=1.0, top_p=0.99)]
    probs_NV = transform(logits_NV, params)
    assert probs_NV.isfinite().all()
    assert not probs_NV[:, ::2].any()
    assert probs_NV[0].count_nonzero() == 1


@pytest.mark.parametrize("filters", [{}, {"top_k": 9}, {"top_p": 1e-300}, {"min_p": 1.0}])
@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-7])
def test_next_to_no_temperature_only_the_likeliest_are_left(
    temperature: float, filters: dict[str, float]
) -> None:
    """Those that are equally likely are still drawn."""
    logits_V = torch.linspace(-50, 3, V)
    logits_V[:2] = 3.0
    params = SamplingParams(temperature=temperature, seed=5, **filters)  # type: ignore[arg-type]
    assert set(np.flatnonzero(draws(params, logits_V, 200))) == {0, 1, V - 1}
    probs_V = transform(logits_V[None], [params])[0]
    assert probs_V[[0, 1, V - 1]].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": -1e-9},
        {"temperature": float("inf")},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"min_p": 2.0},
        {"seed": 1 << 64},
        {"seed": -1},
    ],
)
def test_parameters_that_mean_nothing(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(EngineError, match=f"{name} cannot be"):
        SamplingParams(**wrong)  # type: ignore[arg-type]
