"""The confidence budget: who enters, how many, whether anybody drafts, and what it remembers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.planners.rig import outcome, planner, tails
from verifier.config import BudgetConfig, PlannerConfig
from verifier.costs import CostTable
from verifier.planner import Candidate, Looks, Outcome, Seen
from verifier.planners.admission import admitted, packed
from verifier.planners.budget import FIRST_REST, TRUSTED, Budget
from verifier.planners.regime import GLANCE, LONGEST, PASSING, SETTLE, Regime

NEVER = BudgetConfig(probe_steps=1 << 30)
"""Drafters run all the time."""


def budget(
    *,
    length: int = 8,
    table: CostTable | None = None,
    careful: bool = False,
    own: BudgetConfig = NEVER,
) -> Budget:
    return Budget(PlannerConfig(draft_length=length, careful=careful, budget=own), table)


def test_a_known_case_of_two_requests_and_four_prices() -> None:
    """Computed by hand in `methods.md` 3.2; the seven prices there are of steps a second."""
    survivals = np.cumprod([[1, 0.5, 0.5], [0.5, 0.5, 0.5]], axis=1)
    rates = [100, 100, 90, 90, 60, 60, 50]
    speeds = [2 * 100, 3 * 100, 3.5 * 90, 4 * 90, 4.25 * 60, 4.5 * 60, 4.625 * 50]
    found = admitted(survivals, 1 / np.array(rates), 0.0)
    assert found.lengths == [2, 1]
    assert found.emitted / found.seconds == pytest.approx(max(speeds))


def test_among_equals_the_earlier_position_goes_first_then_the_earlier_request() -> None:
    survivals = np.full((3, 4), 0.5)
    prices = np.ones(100)
    for count, lengths in ((1, [1, 0, 0]), (3, [1, 1, 1]), (5, [2, 2, 1])):
        assert admitted(survivals, prices[: count + 1], 0.0).lengths == lengths


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 1 << 30), st.booleans())
def test_it_finds_what_trying_all_lengths_finds(
    requests: int, slots: int, seed: int, steps: bool
) -> None:
    rng = np.random.default_rng(seed)
    survivals = np.cumprod(rng.integers(1, 64, (requests, slots)) / 64, axis=1)
    prices = np.cumsum(rng.integers(0 if steps else 1, 3, requests * slots + 1)) + 3.0
    found = admitted(survivals, prices, 0.0)
    best = max(
        (requests + sum(survivals[row, :length].sum() for row, length in enumerate(lengths)))
        / prices[sum(lengths)]
        for lengths in product(range(slots + 1), repeat=requests)
    )
    assert found.emitted / found.seconds == pytest.approx(best, rel=1e-3)  # it sorts by 16 bits


def test_tails_of_all_lengths_are_packed_and_what_limits_forbid_is_marked() -> None:
    asked = [
        Candidate(3, 9, (0.9, 0.8, 0.7)),
        Candidate(4, 1, (0.5,) * 4),
        Candidate(2, 9),
        Candidate(0, 0),
    ]
    confidences, held = packed(asked, 3)
    assert confidences.tolist() == [[0.9, 0.8, 0.7], [0.5] * 3, [-1.0] * 3, [-1.0] * 3]
    assert held.tolist() == [[True] * 3, [True, False, False], [True, True, False], [False] * 3]


def test_a_dear_step_takes_sure_drafts_alone_and_a_flat_one_takes_all() -> None:
    asked = tails([0.95, 0.95, 0.3], [0.2, 0.2, 0.2])
    dear = CostTable((1, 64), (0.01, 0.01 + 63 * 0.004))
    assert budget(table=dear).lengths(asked, 99) == [2, 0]
    flat = CostTable((1, 64), (0.01, 0.01))
    assert sum(budget(table=flat).lengths(asked, 99)) >= 4


def test_where_execution_is_padded_a_bucket_is_filled_and_the_next_not_begun() -> None:
    table = CostTable((4, 8, 16), (0.01, 0.03, 0.09), padded=16)
    assert sum(budget(table=table).lengths(tails([0.6] * 8, [0.6] * 8), 99)) == 2  # 2 anchors + 2


def test_the_budget_of_the_step_and_the_limits_of_requests_hold() -> None:
    flat = CostTable((1, 64), (0.01, 0.01))
    assert sum(budget(table=flat).lengths(tails(*[[0.9] * 8] * 3), 5)) == 5
    assert budget(table=flat).lengths([Candidate(8, 2, (0.9,) * 8)], 99) == [2]
    assert budget(table=flat).lengths([Candidate(8, -1, (0.9,) * 8)], 99) == [0]
    assert budget(length=0).lengths(tails([0.9] * 8), 99) == [0]
    assert budget().lengths([], 99) == []


def test_a_drafter_that_is_always_wrong_is_found_out() -> None:
    """Its confidences are high; after a few rounds nothing of it is verified."""
    plan = budget(table=CostTable((1, 64), (0.01, 0.01 + 63 * 0.001)))
    lengths = []
    for _ in range(60):
        lengths.append(plan.lengths(tails([0.9] * 8), 99)[0])
        seen = Seen(1, "suffix", lengths[-1], 0, 1, (0.9,) * lengths[-1])
        seconds = 0.01 + 0.001 * lengths[-1]
        plan.learn(Outcome([seen], 1 + lengths[-1], 0, seconds, seconds))
    assert lengths[0] >= 4
    assert sum(lengths[30:]) <= 3
    before, after, _ = plan.calibration.errors["suffix"]
    assert after < 0.7 * before


def test_a_request_that_drafts_bring_nothing_goes_without_a_drafter_and_tries_again() -> None:
    plan = budget()
    active = []
    for _ in range(TRUSTED + FIRST_REST + TRUSTED + 5):
        plan.lengths(tails([0.9], [0.9]), 99)
        active.append((plan.ahead(1) > 0, plan.ahead(2) > 0))
        plan.learn(outcome((1, 0), (1, 1)))
    assert all(second for _, second in active)
    rested = [not first for first, _ in active]
    assert rested.index(True) == TRUSTED
    assert sum(rested[: TRUSTED + FIRST_REST]) == FIRST_REST
    assert not any(rested[TRUSTED + FIRST_REST : TRUSTED + FIRST_REST + TRUSTED])


def test_careful_sizes_do_not_move_with_what_a_tail_says() -> None:
    table = CostTable((1, 64), (0.01, 0.01 + 63 * 0.002))
    careful = budget(table=table, careful=True)
    assert careful.looks is Looks.NOTHING
    assert budget().looks is Looks.AHEAD
    for _ in range(50):
        careful.learn(outcome((4, 3), (4, 3)))
    found = [careful.lengths(tails([said] * 8, [0.5] * 8), 99) for said in (0.0, 0.3, 1.0)]
    assert found[0] == found[1] == found[2]
    assert sum(found[0]) > 0


# --- whether drafting pays at a load ----------------------------------------------------------------


def run(regime: Regime, steps: int, drafting: float, plain: float) -> list[bool]:
    """Whether each step had drafters; a request gets so many tokens a second with them, and without."""
    done: list[bool] = []
    for _ in range(steps):
        done.append(regime.drafting)
        regime.learn(1.0, 1.0 / (drafting if regime.drafting else plain))
    return done


def test_where_drafting_costs_more_than_it_brings_it_ends_soon_and_is_tried_ever_less() -> None:
    done = run(Regime(12, 150), 12_000, 80.0, 100.0)
    assert sum(done[:60]) < 45
    assert sum(done[2000:]) / len(done[2000:]) < 0.012  # a fifth of that is lost
    assert run(Regime(12, 150), 8000, 120.0, 100.0).count(False) < 140


def test_it_finds_its_way_back_within_a_bounded_number_of_steps() -> None:
    regime = Regime(12, 150)
    run(regime, 5000, 80.0, 100.0)
    back = run(regime, LONGEST * 150 + 100, 150.0, 100.0)
    assert back[-1]
    assert regime.usual


def test_a_regime_does_not_look_long_at_what_is_hopeless() -> None:
    """Where plain steps are known to be much faster, a few with drafts are enough: first six, then as many a trial."""
    regime, steps = Regime(12, 150), []
    for _ in range(400):
        steps.append(regime.drafting)
        regime.learn(1.0, 1.0 / (60.0 if regime.drafting else 100.0), plain=0.01)
    began = steps.index(False)
    assert began == SETTLE + GLANCE
    again = steps.index(True, began)
    assert steps[again:].index(False) == SETTLE + GLANCE


def test_a_regime_believes_what_it_measured_more_than_what_a_table_says() -> None:
    """The table promises fast plain steps; they were tried, and are not."""
    regime = Regime(12, 150)
    drafted = []
    for _ in range(200):
        drafted.append(regime.drafting)
        regime.learn(1.0, 1.0 / (60.0 if regime.drafting else 50.0), plain=0.01)
    assert regime.usual
    assert drafted.count(False) == SETTLE + 12


def test_what_hardly_differs_does_not_flap() -> None:
    regime = Regime(12, 150)
    rng = np.random.default_rng(3)
    for _ in range(20_000):
        regime.learn(1.0, float(rng.normal(1.0, 0.05)))
    assert regime.changes <= 6


def test_one_lucky_trial_of_drafts_that_do_not_pay_changes_nothing() -> None:
    """A dozen steps tell speed to within a tenth, so trials are believed together."""
    regime = resting(1)
    decided = []
    for drafted in (80.0, 108.0, 108.0, 108.0):
        rest(regime, drafted)
        decided.append(regime.usual)
    assert decided == [False, False, False, True]


def test_in_doubt_nobody_drafts() -> None:
    regime = Regime(12, 150)
    run(regime, 120, 99.0, 100.0)
    left = not regime.usual
    assert left
    run(regime, 10_000, 103.0, 100.0)
    assert not regime.usual
    run(regime, 10_000, 106.0, 100.0)
    assert regime.usual


def test_steps_right_after_a_change_count_for_neither() -> None:
    regime = Regime(4, 100)
    for step in range(SETTLE + 4):
        assert regime.drafting, step
        regime.learn(1.0, 1.0)
    assert regime.trial
    for _ in range(SETTLE):
        regime.learn(0.0, 100.0)  # drafters come to rest
    for _ in range(4):
        regime.learn(1.0, 0.5)
    assert (regime.usual, regime.trial) == (False, False)


def loads(plan: Budget, rows: int, steps: int, drafted: float) -> list[bool]:
    """Whether drafters were asked in each step of a load; a step with drafts is so much faster than a plain one."""
    asked = []
    for _ in range(steps):
        drafting = plan.ahead(1) > 0
        asked.append(drafting)
        plan.lengths(tails(*[[0.5]] * rows), 99)
        kept = int(drafting)
        seen = [Seen(number, "suffix", kept, kept, 1 + kept) for number in range(1, rows + 1)]
        seconds = 0.02 / drafted if drafting else 0.01  # for two tokens, or one
        plan.learn(Outcome(seen, rows * (1 + kept), 0, 0.01, seconds))
    return asked


def test_a_load_that_is_new_begins_as_the_nearest_one_is_used_to() -> None:
    """What drafts do not pay for at 32 requests they may pay for at 8: that is tried, but not at once."""
    plan = budget(own=BudgetConfig(probe_steps=12))
    loads(plan, 32, 200, drafted=0.8)
    passing = loads(plan, 20, 1 + PASSING * 12, drafted=0.8)
    assert not any(passing[1:])
    below = loads(plan, 8, 300, drafted=1.5)
    assert not any(below[1 : PASSING * 12])
    assert below[-1]
    alone = loads(plan, 1, 2, drafted=1.5)
    assert alone[-1], "a load that drafts has just been paid for is nearer"
    paying = budget(own=BudgetConfig(probe_steps=12))
    loads(paying, 32, 200, drafted=1.5)
    assert all(loads(paying, 8, 12, drafted=1.5))


@pytest.mark.parametrize(("busy", "then"), [(4, 2), (32, 4)])
def test_a_load_where_no_step_was_made_is_not_known(busy: int, then: int) -> None:
    """A planner begins at one request, but learned nothing there."""
    plan = budget(own=BudgetConfig(probe_steps=12))
    loads(plan, busy, 200, drafted=0.8)
    assert not any(loads(plan, then, PASSING * 12, drafted=0.8)[1:])


def test_the_planner_says_why() -> None:
    plan = budget(
        own=BudgetConfig(probe_steps=4, probe_every=100), table=CostTable((1, 9), (0.01, 0.02))
    )
    said = []
    for _ in range(40):
        lengths = plan.lengths(tails([0.9] * 4), 99)
        said.append(plan.choice.reason)
        seen = Seen(1, "suffix", lengths[0], 0, 1, (0.9,) * lengths[0])
        plan.learn(
            Outcome(
                [seen],
                1 + lengths[0],
                0,
                0.02 if lengths[0] else 0.01,
                0.03 if plan.ahead(1) else 0.01,
            )
        )
    assert said[0] == "worth"
    assert "probe" in said
    assert said[-1] == "rest"
    assert planner("fixed").choice.reason == "set"


def test_what_brings_a_lot_is_not_given_up_to_see_how_plain_decoding_does() -> None:
    regime = Regime(12, 150)
    for _ in range(3000):
        assert regime.drafting
        regime.learn(2.0, 1.0, plain=1.0)
    for _ in range(LONGEST * 150 + 20):
        regime.learn(1.1, 1.0, plain=1.0)  # too little to be sure: it is tried
    assert regime._rates[False].steps


def resting(rows: int) -> Regime:
    """Drafts were slower than plain steps, so they are left alone, for as long as a rest lasts at least."""
    regime = Regime(12, 150, rows)
    run(regime, 120, 80.0, 100.0)
    assert (regime.usual, regime.trial) == (False, False)
    return regime


def test_a_rest_ends_once_as_many_requests_have_begun_as_the_load_has() -> None:
    regime = resting(4)
    drafting = []
    for begun in (3, 1):
        regime.began(begun)
        drafting.append(regime.drafting)
    assert drafting == [False, True]
    assert run(regime, 40, 150.0, 100.0)[-1]
    assert regime.usual  # their drafts pay


def test_a_storm_of_new_requests_cannot_make_trials_of_most_steps() -> None:
    regime = resting(1)
    tried = 0
    for _ in range(1000):
        tried += regime.drafting
        regime.learn(1.0, 1.0 / (95.0 if regime.drafting else 100.0))
        regime.began(1)
    # A trial of 12 steps and what it takes to settle; then 24 steps of rest, 48, 96, and 192 from then on.
    assert 0.06 < tried / 1000 < 0.12


def rest(regime: Regime, drafted: float) -> int:
    """Steps without drafts, of 10 ms, while a request begins with each; then they are tried, at this speed."""
    steps = 0
    while not regime.drafting:
        regime.learn(1.0, 1.0 / 100.0)
        regime.began(1)
        steps += 1
    while regime.trial:
        regime.learn(1.0, 1.0 / drafted)
    return steps


@pytest.mark.parametrize(("drafted", "steps"), [(90.0, GLANCE), (98.0, 12)])
def test_a_trial_that_will_hardly_succeed_is_cut_short(drafted: float, steps: int) -> None:
    """Plain steps bring 100 tokens a second, which is known: 90 are soon enough seen, 98 looked at to the end."""
    regime = resting(1)
    rest(regime, drafted)
    done: list[bool] = []
    while not any(done) or regime.drafting:
        regime.began(1)
        done += run(regime, 1, drafted, 100.0)
    assert sum(done) == SETTLE + steps


def test_trials_for_new_requests_that_keep_failing_come_less_often_until_one_does_not() -> None:
    regime = resting(1)
    rest(regime, 80.0)
    assert [rest(regime, 80.0) for _ in range(4)] == [48, 96, 192, 192]
    rest(regime, 150.0)
    paid = regime.usual
    assert paid
    while regime.usual:
        regime.learn(1.0, 1.0 / (80.0 if regime.drafting else 100.0))
    assert rest(regime, 80.0) == 24


def test_a_new_request_is_not_judged_by_what_drafts_brought_the_one_before_it() -> None:
    plan = budget(
        own=BudgetConfig(probe_steps=12, probe_every=1000),
        table=CostTable((1, 64), (0.01, 0.011)),
    )

    def step(request: int, right: int) -> str:
        (length,) = plan.lengths([Candidate(8, 99, (0.5,) * 8, request, "suffix")], 99)
        taken = min(right, length)
        seen = Seen(request, "suffix", length, taken, taken + 1, (0.5,) * length)
        cycle = 0.013 if plan.ahead(request) else 0.01  # a drafter takes its share of the cores
        plan.learn(Outcome([seen], 1 + length, 0, 0.01, cycle))
        return plan.choice.reason

    chat = [step(1, 0) for _ in range(120)]
    assert chat[-1] == "rest"
    edit = [step(2, 6) for _ in range(40)]
    assert edit[1] == "probe"
    assert edit[-1] == "worth"
