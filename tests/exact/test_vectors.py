"""The numbers of the design (`methods.md` 1.8 to 1.13), out of the functions that serve."""

from collections.abc import Sequence
from fractions import Fraction as F  # noqa: N817
from typing import Any

import numpy as np
import pytest

from engine.masses import take
from tests.exact.enumeration import Path, Purse, outcomes
from tests.exact.made_up import always, drafts, one_by_one, target
from tests.exact.planners import LooksAtIt, LooksBehind
from tests.exact.rounds import Numbers, Service, distance, emitted, own
from verifier.config import PlannerConfig
from verifier.planner import Planner
from verifier.planners.fixed import Fixed
from verifier.rules.decisions import (
    Decide,
    Place,
    block,
    conditional,
    ratio,
    staircase,
    threshold,
)


def f(*numbers: str) -> tuple[F, ...]:
    return tuple(map(F, numbers))


def place(p: Sequence[F], q: Sequence[F], x: int) -> Any:  # noqa: ANN401
    ps: Any = np.array(p, dtype=object)
    qs: Any = np.array(q, dtype=object)
    return Place(p[x], q[x], ps, qs, F(0))  # type: ignore[arg-type]


def cuts(decide: Decide, places: Sequence[Any]) -> dict[Any, F]:
    """The law of how many are kept and by what the target is scaled."""

    def story(path: Path) -> Any:  # noqa: ANN401
        purse = Purse(path, {})
        coins: Any = [purse.coin(index) for index in range(len(places))]
        return tuple(decide(places, coins))

    return outcomes(story)


def remainder(p: Sequence[F], q: Sequence[F], scale: Any) -> list[F]:  # noqa: ANN401
    weights: Any = np.array(p, dtype=object)
    take(weights, np.arange(len(p), dtype=np.int32), np.array(q, dtype=object) / scale)
    return list(weights / weights.sum())


def service(rule: str, p: Sequence[F], q: Sequence[F], planner: Planner, **how: Any) -> Service:
    return Service(rule, always(*p), drafts(*q), planner, wire=False, further=False, **how)


def fixed(length: int) -> Fixed:
    return Fixed(PlannerConfig(draft_length=length))


# --- 1.8 --------------------------------------------------------------------------------------------------------------

P3 = f("1/2", "3/10", "1/5")


def emits(decide: Decide, x: int) -> list[F]:
    """One certain draft x, then what ends the round."""
    law = [F(0)] * 3
    certain = tuple(F(int(token == x)) for token in range(3))
    for (kept, _), share in cuts(decide, [place(P3, certain, x)]).items():
        rest = certain if kept else remainder(P3, certain, 1)
        law = [each + share * part for each, part in zip(law, rest, strict=True)]
    return law


def test_an_accumulated_threshold_multiplies_chances() -> None:
    accumulated: Any = F(6, 10)
    assert emits(threshold(1.0, accumulated), 0) == [F(5, 6), F(1, 10), F(1, 15)]


def test_a_single_threshold_overrides_the_coin() -> None:
    single: Any = F(3, 10)
    assert emits(threshold(single, 1.0), 1) == [0, 1, 0]


@pytest.mark.parametrize("x", range(3))
def test_thresholds_of_1_change_nothing(x: int) -> None:
    assert emits(threshold(1.0, 1.0), x) == list(P3)


# --- 1.9 --------------------------------------------------------------------------------------------------------------

ROWS = [f("1/2", "3/10", "1/5"), f("1/5", "1/2", "3/10"), f("3/5", "3/10", "1/10")]
GUESSED = [f("7/10", "1/5", "1/10"), f("1/10", "3/10", "3/5")]
PLACES = [place(ROWS[0], GUESSED[0], 0), place(ROWS[1], GUESSED[1], 2)]


def test_block_keeps_what_the_paper_says() -> None:
    found = cuts(block, PLACES)
    kept = {count: (scale, share) for (count, scale), share in found.items()}
    assert [float(kept[count][1]) for count in (2, 1, 0)] == pytest.approx(
        [0.357143, 0.166667, 0.476190], abs=1e-6
    )
    assert [float(kept[count][0]) for count in (2, 1, 0)] == pytest.approx(
        [0.357143, 0.714286, 1.0], abs=1e-6
    )
    assert remainder(ROWS[0], GUESSED[0], kept[0][0]) == [0, F(1, 2), F(1, 2)]
    assert [float(each) for each in remainder(ROWS[1], GUESSED[1], kept[1][0])] == pytest.approx(
        [0.428571, 0.571429, 0], abs=1e-6
    )


def test_the_token_rule_on_the_same_numbers() -> None:
    assert cuts(ratio, PLACES) == {
        (2, 1): F(5, 7) / 2,
        (1, 1): F(5, 7) / 2,
        (0, 1): F(2, 7),
    }
    assert remainder(ROWS[1], GUESSED[1], 1) == [F(1, 3), F(2, 3), 0]


def kept_by(rule: str, seed: int, length: int, possible: int) -> F:
    """The mean of what one round emits."""
    law, drafter = target(4, 3, str(seed)), one_by_one(4, possible, str(seed))
    one = Service(rule, law, drafter, fixed(length), (length,), sends=True)
    one.run(1, 9)
    return one.lengths[0]


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_block_keeps_at_least_what_ratio_keeps(seed: int, length: int) -> None:
    assert kept_by("block", seed, length, 2) >= kept_by("ratio", seed, length, 2)


def test_block_may_keep_more() -> None:
    assert any(
        kept_by("block", seed, 3, 2) > kept_by("ratio", seed, 3, 2) + F(1, 100) for seed in range(6)
    )


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_of_certain_guesses_block_keeps_as_many_as_ratio(length: int) -> None:
    assert kept_by("block", length, length, 1) == kept_by("ratio", length, length, 1)


# --- 1.10 -------------------------------------------------------------------------------------------------------------


def test_curves() -> None:
    assert staircase(2.6, 4) == pytest.approx([1, 0.6, 0, 0])
    assert staircase(5, 4) == [1, 1, 1, 1]
    assert staircase(1, 4) == [0, 0, 0, 0]
    assert conditional([0.9, 0.6, 0.6, 0.1]) == pytest.approx([0.9, 0.66667, 1, 0.16667], abs=1e-5)
    assert conditional([0.5, 0.0, 0.0]) == [0.5, 0, 0]


# --- 1.13 -------------------------------------------------------------------------------------------------------------

HALF, SKEWED = f("1/2", "1/2"), f("3/4", "1/4")


def law_of_one(one: Service) -> list[F]:
    found = emitted(one.run(1, 1), one.target, 1)
    return [found.get(((token,),), F(0)) for token in range(len(one.target(())))]


def test_a_token_that_is_admitted_by_its_own_confidence_is_biased() -> None:
    one = service("ratio", HALF, SKEWED, LooksAtIt(1, 0.5), holds=(1,))
    assert law_of_one(one) == [F(5, 8), F(3, 8)]


def test_a_confidence_of_the_last_round_is_not_old_while_its_token_is_in_the_tail() -> None:
    """Two rounds: x3 is drafted in the first, carried, and admitted in the second by what was recorded for it."""
    carried = service("ratio", HALF, SKEWED, _SecondRound(), holds=(3, 1))
    assert distance(carried, 3) > F(1, 100)


class _SecondRound(LooksAtIt):
    """Two tokens of a full tail; of what is left of it then, what is sure enough."""

    def __init__(self) -> None:
        super().__init__(3, 0.5)

    def length(self, confidences: Sequence[float]) -> int:
        return 2 if len(confidences) == 3 else super().length(confidences)


def test_the_papers_counterexample() -> None:
    """Retrospective choice: token 0 is the surer one, and only it gets into the window."""

    def says(_law: Numbers, token: int) -> float:
        return 1.0 if token == 0 else 0.0

    one = service("ratio", f("7/10", "3/10"), HALF, LooksAtIt(1), holds=(1,), confidence=says)
    assert law_of_one(one) == [F(17, 20), F(3, 20)]


P, Q = HALF, f("9/10", "1/10")


def second_after_1(reused: frozenset[str]) -> list[float]:
    one = service("block", P, Q, fixed(2), holds=(2, 2), reused=reused)
    found = emitted(one.run(1, 2), one.target, 2)
    shares = [found.get(((1, token),), F(0)) for token in range(2)]
    return [round(float(share / sum(shares)), 2) for share in shares]


def test_block_with_reused_coins_is_biased_and_with_fresh_ones_exact() -> None:
    assert second_after_1(frozenset({"accept"})) == [0.37, 0.63]
    assert second_after_1(frozenset({"draft"})) == [0.54, 0.46]
    assert second_after_1(frozenset()) == [0.5, 0.5]


@pytest.mark.parametrize("rule", ["ratio", "block"])
def test_a_second_draft_that_the_first_decides_about_is_exact(rule: str) -> None:
    one = service(rule, HALF, SKEWED, LooksBehind(2, 0.5), holds=(2, 2, 2), confidence=own)
    assert distance(one, 3) == 0


def test_guesses_filled_in_out_of_order_have_no_law_that_ratio_could_use() -> None:
    """x2 is drawn first and x1 given x2; each comes with the law that it was drawn from."""
    second, first = SKEWED, {0: f("3/4", "1/4"), 1: f("1/8", "7/8")}
    law = [F(0), F(0)]
    for x2, x1 in ((x2, x1) for x2 in range(2) for x1 in range(2)):
        for (kept, _), share in cuts(ratio, [place(HALF, first[x2], x1)]).items():
            rest = remainder(HALF, first[x2], 1)
            for token in range(2):
                one = F(int(token == x1)) if kept else rest[token]
                law[token] += second[x2] * first[x2][x1] * share * one
    assert law == list(HALF)  # the first token alone does not tell
    assert _pairs(second, first) != {pair: F(1, 4) for pair in _PAIRS}


_PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def _pairs(second: Numbers, first: dict[int, tuple[F, ...]]) -> dict[tuple[int, int], F]:
    """Both tokens: the second is tested where the first was kept, and drawn plainly where it was not."""
    law = dict.fromkeys(_PAIRS, F(0))
    for x1, x2 in _PAIRS:
        places = [place(HALF, first[x2], x1), place(HALF, second, x2)]
        for (kept, _), share in cuts(ratio, places).items():
            weight = second[x2] * first[x2][x1] * share
            own_1 = [F(int(token == x1)) for token in range(2)]
            laws = [
                own_1 if kept >= 1 else remainder(HALF, first[x2], 1),
                [F(int(token == x2)) for token in range(2)]
                if kept == 2
                else remainder(HALF, second, 1)
                if kept == 1
                else list(HALF),
            ]
            for pair in _PAIRS:
                law[pair] += weight * laws[0][pair[0]] * laws[1][pair[1]]
    return law
