"""Kernels judge windows as the CPU does: the same tokens, unless a decision is closer than 1e-5, which is counted."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.philox import Role, uniforms
from protocol.laws import Law
from protocol.messages import Sampling
from verifier.acceptance import make
from verifier.config import PlannerConfig, SyntheticConfig, ThresholdConfig, VerifierConfig
from verifier.judge_torch import DEAD_END, TorchJudge
from verifier.judge_triton import TritonJudge as AnyTritonJudge
from verifier.matcher import Masks
from verifier.rules.windows import NOT_NUMBERS
from verifier.step import Verdict, Work

CHUNK: Final = 512
V: Final = CHUNK + 300
TritonJudge: Final = partial(AnyTritonJudge, chunk=CHUNK, step=CHUNK)
CLOSE: Final = 1e-5
RULES: Final = ("match", "ratio", "block", "threshold", "synthetic")


def configured(rule: str) -> VerifierConfig:
    return VerifierConfig(
        model=".",
        rule=rule,
        planner=PlannerConfig(draft_length=4),
        threshold=ThresholdConfig(single=0.6, accumulated=0.9) if rule == "threshold" else ThresholdConfig(),
        synthetic=SyntheticConfig(rates=(0.8, 0.7, 0.3)) if rule == "synthetic" else SyntheticConfig(),
    )  # fmt: skip


class Allows:
    """A grammar that allows multiples of three, and one thing only behind a token of 300 or more."""

    complete = finished = False

    def masks(self, drafts: Sequence[int]) -> Masks:
        rows = []
        for draft in (None, *drafts):
            bits = np.zeros(V, np.bool_)
            bits[::3] = True
            if draft is not None and draft >= 300:
                bits[:] = False
                bits[draft] = True
            rows.append(np.packbits(bits, bitorder="little").tobytes())
        return Masks(tuple(rows))

    def accept(self, token: int) -> str:
        raise AssertionError(token)


def logits_of(source: np.random.Generator, rows: int) -> Tensor:
    """Rows of which some are flat and some steep, with a few likely tokens anywhere."""
    flat = source.normal(0, source.uniform(0.2, 3, (rows, 1)), (rows, V))
    for row in flat:
        row[source.integers(0, V, 12)] += source.uniform(0, 14, 12)
    return torch.from_numpy(flat).float()


def sampling_of(source: np.random.Generator, kind: str) -> Sampling:
    how: dict[str, Any] = {"seed": int(source.integers(0, 2**63))}
    if kind != "greedy":
        how["temperature"] = float(source.uniform(0.3, 1.5))
    if kind == "filters":
        how["top_k"] = int(source.choice([0, 1, 7, 50, V + 5]))
        how["top_p"] = float(source.choice([1.0, 0.9, 0.4]))
        how["min_p"] = float(source.choice([0.0, 0.05]))
    if kind == "adjusted":
        how |= {
            "repetition_penalty": 1.7,
            "presence_penalty": 0.4,
            "frequency_penalty": 0.3,
            "logit_bias": ((3, 4.0), (V - 1, -2.0), (6, 2.0)),
            "bad_words": ((9,), (6, 3)),
        }
    if kind == "allowed":
        how["allowed"] = (3, 6, 9, 12, V - 1)
    return Sampling(**how)


def window_of(source: np.random.Generator, kind: str, logits: Tensor, rule: str) -> Work:
    """A window whose guesses are likely ones, and the laws that they were drawn from."""
    draws = len(logits)
    further = rule != "match" and bool(source.random() < 0.3)
    guesses, laws = [], []
    for row in range(draws - 1 + further):
        ids = logits[row].topk(6).indices.numpy().astype(np.int32)
        ids[0] = ids[0] if source.random() < 0.8 else source.integers(0, V)
        ids = np.unique(ids)
        values = source.dirichlet(np.ones(len(ids))).astype(np.float32) + np.float32(1e-3)
        law = Law(ids, values / values.sum())
        guesses.append(int(source.choice(ids, p=law.shares)))
        laws.append(law if source.random() < 0.7 else None)
    output = tuple(int(each) for each in source.choice([3, 6, 9, 12, 700], 5))
    drafts = tuple(guesses[: draws - 1])
    return Work(
        request=1,
        tokens=(output[-1], *drafts),
        start=20,
        pages=(),
        drafts=len(drafts),
        draws=draws,
        sampling=sampling_of(source, kind),
        choice=int(source.integers(0, 4)),
        banned=frozenset({3, 5}) if kind == "adjusted" else frozenset(),
        banned_draws=2 if kind == "adjusted" else 0,
        prompt=(3, 12, 44),
        output=output,
        matcher=Allows() if kind == "grammar" else None,
        further=guesses[-1] if further else None,
        laws=laws,
    )


KINDS: Final = ("plain", "greedy", "filters", "adjusted", "allowed", "grammar")


def compared(rule: str, count: int, seed: int, device: str = "cpu") -> None:
    source = np.random.default_rng(seed)
    config = configured(rule)
    theirs = TorchJudge(make(config))
    ours = TritonJudge(config.model_copy(update={"device": device}))
    rows = [int(source.integers(1, 5)) for _ in range(count)]
    logits = [logits_of(source, each) for each in rows]
    works = [
        window_of(source, KINDS[index % len(KINDS)], each, rule)
        for index, each in enumerate(logits)
    ]
    wanted = theirs(works, torch.cat(logits))
    found = ours(works, torch.cat(logits).to(device))
    close = 0
    for work, each, one, other in zip(works, logits, wanted, found, strict=True):
        if one != other:
            assert near(theirs, work, each), (one, other, work)
            close += 1
    assert close <= count / 10
    if rule == "block":
        assert ours.elsewhere == sum(
            work.matcher is not None or bool(work.banned or work.sampling.allowed) for work in works
        )


def near(judge: TorchJudge, work: Work, logits: Tensor) -> bool:
    """Whether changes of CLOSE at most change the verdict."""
    source = torch.Generator().manual_seed(0)
    verdicts = set()
    for _ in range(32):
        noise = (torch.rand(logits.shape, generator=source) * 2 - 1) * CLOSE
        verdicts.add(judge([work], logits + noise)[0].tokens)
    return len(verdicts) > 1


@pytest.mark.parametrize("rule", RULES)
def test_the_same_verdicts(rule: str) -> None:
    compared(rule, 6, seed=RULES.index(rule))


class Later:
    """A device that is slow to answer: what was asked for is there when `arrived` says so."""

    def __init__(self) -> None:
        self.asked: list[Tensor] = []
        self.arrived = False

    def fetch(self, tensor: Tensor, _wake: object) -> "Later":
        self.asked.append(tensor)
        return self

    def ready(self) -> bool:
        return self.arrived

    def numbers(self) -> Any:  # noqa: ANN401  # an array
        assert self.arrived
        return self.asked[-1].numpy()


@pytest.mark.parametrize("rule", ["match", "block"])
def test_verdicts_are_on_their_way_until_one_copy_has_come(rule: str) -> None:
    """Under `block` some windows are judged on the CPU: their verdicts stand in their places among the others."""
    source = np.random.default_rng(3)
    logits = [logits_of(source, 2) for _ in range(3)]
    kinds = ("plain", "allowed", "greedy")
    works = [window_of(source, kind, each, rule) for kind, each in zip(kinds, logits, strict=True)]
    wanted = TritonJudge(configured(rule))(works, torch.cat(logits))
    device = Later()
    judge = TritonJudge(configured(rule), fetch=device.fetch)
    pending = judge.begin(works, torch.cat(logits), lambda: None)
    assert not pending.ready()
    device.arrived = True
    assert pending.ready()
    assert pending.take() == wanted
    assert len(device.asked) == 1
    assert judge.elsewhere == (rule == "block")


def test_a_step_from_which_nothing_is_drawn_is_waited_for_all_the_same() -> None:
    device = Later()
    pending = TritonJudge(configured("match"), fetch=device.fetch).begin(
        [], torch.zeros(0, V), lambda: None
    )
    assert (pending.ready(), len(device.asked)) == (False, 1)
    device.arrived = True
    assert pending.take() == []


@pytest.mark.full
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(10, 16))
def test_the_same_verdicts_of_more_windows(rule: str, seed: int) -> None:
    compared(rule, 120, seed)


def test_a_guess_behind_the_drafts_and_beyond_the_curve_was_never_made() -> None:
    """The curve always keeps one draft; what the target says most of all stands behind it, guessed or not."""
    config = configured("synthetic").model_copy(
        update={"synthetic": SyntheticConfig(rates=(1.0,)), "device": "cpu"}
    )
    logits = torch.zeros(2, V)
    logits[:, 7] = 30.0
    work = replace(greedy_window(7), further=7, sampling=Sampling(temperature=1.0, seed=3))
    assert TorchJudge(make(config))([work], logits.clone()) == [Verdict((7, 7), 1)]
    assert TritonJudge(config)([work], logits.clone()) == [Verdict((7, 7), 1)]


def test_greedy_takes_the_lowest_of_equals() -> None:
    logits = torch.zeros(3, V)
    logits[0, [V - 1, CHUNK + 1, CHUNK - 2]] = 2.0
    logits[1, [5, 8]] = 1.0
    work = replace(greedy_window(CHUNK - 2, 5), tokens=(1, CHUNK - 2, 5))
    judge = TritonJudge(configured("greedy"))
    assert judge([work], logits) == [Verdict((CHUNK - 2, 5, 0), 2)]


def greedy_window(*drafts: int) -> Work:
    return Work(1, (1, *drafts), 3, (), len(drafts), len(drafts) + 1, Sampling(), 0)


@pytest.mark.parametrize("rule", ["greedy", "match", "ratio"])
@pytest.mark.parametrize("strange", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_end_the_choice(rule: str, strange: float) -> None:
    logits = torch.zeros(3, V)
    logits[0, 7] = 30.0
    logits[1, 700] = strange
    hot = replace(greedy_window(7, 8), sampling=Sampling(temperature=0.5, seed=1))
    for work in (greedy_window(7, 8), hot):
        found = TritonJudge(configured(rule))([work], logits.clone())
        assert found == [Verdict((7,), 1, fault=NOT_NUMBERS)]


def test_where_no_token_may_stand_a_choice_ends_with_the_reason() -> None:
    logits = torch.zeros(2, V)
    logits[0, 5] = 30.0
    how = Sampling(allowed=(5,), bad_words=((5, 5),))
    work = replace(greedy_window(5), sampling=how, output=(1,))
    for rule in ("match", "ratio", "block"):
        config = configured(rule)
        found = TritonJudge(config)([work], logits.clone())
        assert found == TorchJudge(make(config))([work], logits.clone())
        assert found == [Verdict((5,), 1, fault=DEAD_END)]


def test_draws_are_keyed_as_on_the_cpu() -> None:
    """The bits themselves: over equally likely tokens a draw is its uniform number, in steps of the vocabulary."""
    works = [
        replace(
            greedy_window(),
            sampling=Sampling(temperature=1.0, seed=seed),
            choice=choice,
            start=position - 1,
        )
        for seed, choice, position in [(2**64 - 1, 3, 77), (5, 2**32 - 1, 2**20), (2**40 + 3, 0, 1)]
    ]
    found = TritonJudge(configured("match"))(works, torch.zeros(3, V))
    numbers = uniforms(
        np.array([work.sampling.seed for work in works], np.uint64),
        [work.choice for work in works],
        [work.position for work in works],
        Role.TARGET,
    )
    assert [each.tokens[0] for each in found] == [int(number * V) for number in numbers]


def test_filters_keep_equals_at_the_boundary_together() -> None:
    """Of 300 likeliest equals all are drawn from, however many were asked for."""
    logits = torch.full((6, V), -4.0)
    logits[:, 400:700] = 3.0
    works = [
        replace(greedy_window(), sampling=Sampling(temperature=1.0, top_k=1 + seed, seed=seed))
        for seed in range(6)
    ]
    tokens = [each.tokens[0] for each in TritonJudge(configured("match"))(works, logits)]
    assert all(400 <= token < 700 for token in tokens)
    assert len(set(tokens)) > 4
