"""Rules that test guesses, on logits: what they are asked to survive, and that batches do not touch each other."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.masses import draw_rest, masses, usable
from engine.params import SamplingParams
from engine.sampling import transform
from protocol.errors import LocalError
from protocol.laws import Law
from protocol.messages import Sampling
from tests.verifier.exactness_table import BEGIN, END, FILE, table
from verifier.__main__ import vet
from verifier.acceptance import RULES, Rule, Slices, lossy, make
from verifier.config import PlannerConfig, SyntheticConfig, ThresholdConfig, VerifierConfig
from verifier.exactness import Confidence, Draws, Kind, asked, faults, finding, looks
from verifier.planners import PLANNERS
from verifier.rules.windows import NOT_NUMBERS
from verifier.step import Verdict, Work

V = 8
NEVER = float("-inf")


def configured(rule: str, **settings: object) -> VerifierConfig:
    planner = PlannerConfig(draft_length=4)
    return VerifierConfig.model_validate(
        {"model": ".", "rule": rule, "planner": planner} | settings
    )


TESTED = [name for name, entry in RULES.items() if entry.decide]
ALL = [*TESTED, "match", "greedy"]


def rule(name: str) -> Rule:
    return make(configured(name))


def law(**shares: float) -> Law:
    """`_3=0.5` is token 3 with probability a half."""
    ids = [int(name[1:]) for name in shares]
    return Law(np.array(ids, np.int32), np.array(list(shares.values()), np.float32))


def window(
    *drafts: int,
    further: int | None = None,
    laws: Sequence[Law | None] = (),
    seed: int = 0,
    sampling: Sampling | None = None,
) -> Work:
    return Work(
        request=1,
        tokens=(0, *drafts),
        start=4,
        pages=(),
        drafts=len(drafts),
        draws=len(drafts) + 1,
        sampling=sampling or Sampling(temperature=1.0, seed=seed),
        choice=0,
        further=further,
        laws=laws,
    )


def logits(*rows: dict[int, float]) -> Tensor:
    """Rows of probabilities."""
    probs_NV = torch.zeros(len(rows), V)
    for row, shares in enumerate(rows):
        for token, share in shares.items():
            probs_NV[row, token] = share
    return probs_NV.log()


# --- stated outcomes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TESTED)
def test_a_draft_that_the_target_cannot_draw_is_rejected(name: str) -> None:
    works = [window(3, laws=[law(_3=1.0)], seed=seed) for seed in range(200)]
    verdicts = rule(name)(works, logits(*[{1: 0.5, 2: 0.5}, {4: 1.0}] * 200))
    assert {verdict.tokens for verdict in verdicts} == {(1,), (2,)}
    assert {verdict.accepted for verdict in verdicts} == {0}


@pytest.mark.parametrize("name", ["ratio", "block"])
def test_a_draft_that_rounding_took_from_its_law_is_kept_if_the_target_can_draw_it(
    name: str,
) -> None:
    impossible = Law(np.array([1, 3], np.int32), np.array([1.0, 0.0], np.float32))
    works = [window(3, laws=[impossible], seed=seed) for seed in range(50)]
    verdicts = rule(name)(works, logits(*[{1: 0.5, 3: 0.5}, {4: 1.0}] * 50))
    assert {verdict.tokens for verdict in verdicts} == {(3, 4)}
    verdicts = rule(name)(works, logits(*[{1: 1.0}, {4: 1.0}] * 50))
    assert {verdict.tokens for verdict in verdicts} == {(1,)}


@pytest.mark.parametrize("name", TESTED)
def test_a_certain_target_always_keeps_its_token(name: str) -> None:
    works = [window(3, laws=[law(_3=0.25, _4=0.75)], seed=seed) for seed in range(200)]
    verdicts = rule(name)(works, logits(*[{3: 1.0}, {5: 1.0}] * 200))
    assert {verdict.tokens for verdict in verdicts} == {(3, 5)}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_target_that_yields_no_numbers_ends_the_choice_where_it_does(
    name: str, broken: float
) -> None:
    sampling = Sampling(temperature=0.0 if name == "greedy" else 1.0)
    logits_NV = logits({1: 1.0}, {2: 1.0}, {3: 1.0})
    logits_NV[1, 5] = broken
    works = [window(1, 2, sampling=sampling)]
    assert rule(name)(works, logits_NV) == [Verdict((1,), 1, fault=NOT_NUMBERS)]


@pytest.mark.parametrize("name", ALL)
def test_what_is_behind_a_rejected_draft_may_be_anything(name: str) -> None:
    sampling = Sampling(temperature=0.0 if name == "greedy" else 1.0)
    logits_NV = logits({1: 1.0}, {2: 1.0}, {3: 1.0})
    logits_NV[1:] = float("nan")
    assert rule(name)([window(4, 2, sampling=sampling)], logits_NV) == [Verdict((1,), 0)]


def test_where_rounding_leaves_nothing_the_whole_distribution_is_drawn_from() -> None:
    row_V = logits({1: 0.5, 2: 0.5})[0]
    ids = np.array([1, 2], np.int32)
    drawn = {
        draw_rest(row_V, SamplingParams(temperature=1.0), ids, np.array([0.5, 0.5]), uniform)
        for uniform in (0.1, 0.4, 0.6, 0.9)
    }
    assert drawn == {1, 2}


def test_what_is_left_is_drawn_in_proportion_and_never_what_is_masked() -> None:
    row_V = logits({1: 0.5, 2: 0.3, 3: 0.2})[0]
    ids = np.array([1, 5], np.int32)
    uniforms = (np.arange(1000) + 0.5) / 1000
    drawn = Counter(
        draw_rest(row_V, SamplingParams(temperature=1.0), ids, np.array([0.5, 0.5]), uniform)
        for uniform in uniforms
    )
    assert drawn == {2: 600, 3: 400}


@pytest.mark.parametrize("name", TESTED)
def test_the_lowest_of_equally_likely_tokens_is_the_likeliest(name: str) -> None:
    greedy = Sampling()
    logits_NV = torch.zeros(2, V)
    logits_NV[:, [2, 5]] = 1.0
    assert rule(name)([window(2, sampling=greedy)], logits_NV) == [Verdict((2, 2), 1)]
    assert rule(name)([window(5, sampling=greedy)], logits_NV) == [Verdict((2,), 0)]


# --- the guess behind the window --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TESTED)
def test_the_guess_behind_the_window_takes_the_place_of_the_bonus(name: str) -> None:
    work = window(1, further=2, laws=[law(_1=1.0), law(_2=0.5, _3=0.5)])
    assert rule(name)([work], logits({1: 1.0}, {2: 1.0})) == [Verdict((1, 2), 1)]


@pytest.mark.parametrize("name", TESTED)
def test_a_wrong_guess_behind_the_window_is_replaced(name: str) -> None:
    work = window(1, further=2, laws=[law(_1=1.0), law(_2=0.5, _3=0.5)])
    assert rule(name)([work], logits({1: 1.0}, {3: 1.0})) == [Verdict((1, 3), 1)]


@pytest.mark.parametrize("name", TESTED)
def test_a_row_without_drafts_may_have_one_behind_it(name: str) -> None:
    work = window(further=2, laws=[law(_2=0.5, _3=0.5)])
    assert rule(name)([work], logits({2: 1.0})) == [Verdict((2,), 0)]


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TESTED)
def test_windows_share_a_call_without_touching_each_other(name: str) -> None:
    torch.manual_seed(3)
    asked = [
        Sampling(),
        Sampling(1.0, seed=1),
        Sampling(0.7, top_k=3, seed=2),
        Sampling(1.5, top_p=0.8, min_p=0.1, seed=3),
        Sampling(2.0, seed=2**64 - 1),
    ] * 3
    works = [
        window(
            *[2, 3, 4][: index % 4],
            further=5 if index % 2 else None,
            laws=[law(_2=0.5, _3=0.25, _7=0.25), None, law(_4=1.0), law(_5=0.5, _1=0.5)],
            sampling=each,
        )
        for index, each in enumerate(asked)
    ]
    rows = [torch.randn(work.draws, V) * 2 for work in works]
    together = rule(name)(works, torch.cat(rows))
    assert together == [
        rule(name)([work], own_NV)[0] for work, own_NV in zip(works, rows, strict=True)
    ]


@pytest.mark.parametrize("params", [{}, {"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.2}])
def test_masses_are_those_of_the_distribution_that_plain_sampling_draws_from(
    params: dict[str, float],
) -> None:
    torch.manual_seed(5)
    logits_NV = torch.randn(20, V) * 2
    logits_NV[:, 6] = NEVER
    asked = [SamplingParams(temperature=0.8, **params) for _ in range(20)]  # type: ignore[arg-type]
    ids = [np.array([index % V, 6], np.int32) if index % V != 6 else None for index in range(20)]
    probs_NV = transform(logits_NV, asked).double()
    for mass, row_ids, probs_V in zip(masses(logits_NV, asked, ids), ids, probs_NV, strict=True):
        if row_ids is None:
            assert mass is None
            continue
        assert mass is not None
        assert mass.inside == pytest.approx(probs_V[row_ids].numpy(), abs=1e-6)
        assert mass.inside[1] == 0.0
        assert mass.rest == pytest.approx(1 - mass.inside.sum(), abs=1e-6)


def test_rows_that_nothing_can_be_drawn_from_are_found() -> None:
    logits_NV = torch.zeros(4, V)
    logits_NV[1, 3], logits_NV[2, 3], logits_NV[3] = float("nan"), float("inf"), NEVER
    assert usable(logits_NV) == [True, False, False, False]


# --- the curve --------------------------------------------------------------------------------------------------------


def test_a_curve_keeps_drafts_but_none_that_are_not_allowed() -> None:
    judge = make(configured("synthetic", synthetic=SyntheticConfig(rates=(1.0, 1.0, 1.0))))
    logits_NV = logits({1: 1.0}, {1: 1.0}, {1: 1.0})
    logits_NV[0, 5] = -50.0
    assert judge([window(5, 6)], logits_NV)[0] == Verdict((5, 1), 1)


def test_a_rejected_draft_of_a_curve_is_not_drawn_again() -> None:
    judge = make(configured("synthetic", synthetic=SyntheticConfig(length=1.0)))
    logits_NV = logits({1: 0.9, 2: 0.1}, {1: 1.0})
    for sampling in (Sampling(), Sampling(1.0, seed=4)):
        assert judge([window(1, sampling=sampling)], logits_NV) == [Verdict((2,), 0)]


def test_a_curve_that_goes_on_may_keep_the_guess_behind_the_window() -> None:
    judge = make(configured("synthetic", synthetic=SyntheticConfig(rates=(1.0, 1.0))))
    logits_NV = logits({1: 0.9, 2: 0.1}, {1: 0.9, 3: 0.1})
    logits_NV[:, 5] = -50.0
    assert judge([window(5, further=5)], logits_NV) == [Verdict((5, 5), 1)]
    ends = make(configured("synthetic", synthetic=SyntheticConfig(rates=(1.0,))))
    assert ends([window(5, further=5)], logits_NV)[0].tokens in {(5, 1), (5, 3)}
    never = make(configured("synthetic", synthetic=SyntheticConfig(rates=(1.0, 0.0))))
    for seed in range(20):
        assert never([window(5, further=1, seed=seed)], logits_NV) == [Verdict((5, 3), 1)]


# --- settings ---------------------------------------------------------------------------------------------------------


def test_lossy_rules_are_labelled_and_others_are_not() -> None:
    assert [lossy(configured(name)) for name in ALL] == [""] * len(ALL)
    assert "mean length 2.60" in lossy(
        configured("synthetic", synthetic=SyntheticConfig(length=2.6))
    )
    assert lossy(configured("threshold", threshold=ThresholdConfig(single=0.3)))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (configured("ratios"), "there is no rule 'ratios'"),
        (configured("synthetic"), "needs either"),
        (configured("synthetic", synthetic={"rates": (0.5,), "length": 2.0}), "needs either"),
        (configured("synthetic", synthetic={"rates": (0.5, 0.6)}), "rise"),
        (configured("synthetic", synthetic={"rates": (0.5,) * 5}), "5 synthetic.rates"),
        (configured("synthetic", synthetic={"length": 5.5}), "more than 4 drafts"),
        (configured("ratio", synthetic={"length": 2.0}), "a curve means nothing to rule ratio"),
        (configured("block", threshold={"single": 0.5}), "mean nothing to rule block"),
    ],
)
def test_settings_that_mean_nothing_are_refused(config: VerifierConfig, text: str) -> None:
    assert text in next(faults(config))


def test_settings_that_mean_something_are_not() -> None:
    assert not list(faults(configured("ratio")))
    assert not list(faults(configured("synthetic", synthetic={"length": 5.0})))
    assert not list(faults(configured("threshold", threshold={"accumulated": 0.5})))


def test_a_verifier_warns_of_a_lossy_rule_when_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    vet(configured("ratio"))
    assert not caplog.records
    vet(configured("threshold", threshold=ThresholdConfig(accumulated=0.5)))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "does not follow the target's law: threshold: likely drafts" in record.message
    with pytest.raises(LocalError, match="a curve means nothing to rule ratio"):
        vet(configured("ratio", synthetic={"length": 2.0}))


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", RULES)
def test_laws_are_asked_for_where_they_change_nothing_for_the_worse(
    name: str, planner: str
) -> None:
    """Of drafters that are known, and of any that may come."""
    for draws, confidence in product(
        ("one by one", "at once"), ("none", "token", "largest", "head")
    ):
        config = VerifierConfig.model_validate(
            {
                "model": ".",
                "rule": name,
                "planner": {"name": planner},
                "drafts": {"draws": draws, "confidence": confidence},
            }
        )
        found = finding(name, looks(config), Draws(draws), Confidence(confidence))
        wanted = RULES[name].laws and found.kind is Kind.EXACT
        assert asked(config) == (Slices(64, RULES[name].fresh) if wanted else Slices())


def test_the_docs_show_the_table_of_combinations() -> None:
    text = FILE.read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown.strip() == table().strip(), "run python -m tests.verifier.exactness_table"
