"""The law of what is emitted, computed exactly: three rounds with a carried tail, and two requests with one budget.

Nothing is sampled here. `distance` is the total variation to plain decoding in fractions: 0 means the same law.
"""

from itertools import product

import pytest

from tests.exact.made_up import at_once, certain, on_features, one_by_one, target
from tests.exact.planners import LooksAhead, LooksAtIt, LooksBehind, Ranks, Trades
from tests.exact.rounds import Confidence as Says
from tests.exact.rounds import Drafter, Numbers, Renews, Service, distance, largest, own
from verifier.acceptance import RULES
from verifier.config import PlannerConfig
from verifier.costs import Costs, CostTable
from verifier.exactness import OWN, Confidence, Draws, Kind, finding
from verifier.planner import Looks, Planner
from verifier.planners import PLANNERS as TABLE
from verifier.planners.budget import Budget
from verifier.planners.fixed import Fixed

RULES_WITH_LAWS = [name for name, entry in RULES.items() if entry.laws]
TESTED = ["match", "threshold", *RULES_WITH_LAWS]


def fixed(length: int) -> Fixed:
    return Fixed(PlannerConfig(draft_length=length))


# --- three rounds -----------------------------------------------------------------------------------------------------

SETTINGS = {
    "3 tokens, 1 draft, 1 or 2 behind it": (3, 2, 2, 1, (2, 3, 2), 4),
    "3 tokens, all possible": (3, 3, 3, 1, (2, 1, 2), 3),
    "3 tokens, 2 drafts": (3, 2, 2, 2, (3, 3, 3), 4),
    "4 tokens, 3 drafts, now and then a short tail": (4, 2, 2, 3, (4, 1, 4), 4),
    "5 tokens, no drafts in the second round": (5, 3, 2, 2, (3, 0, 3), 3),
    "5 tokens, all possible": (5, 5, 5, 1, (2, 1, 2), 2),
    "8 tokens, 4 drafts": (8, 2, 2, 4, (5, 3, 5), 3),
    "8 tokens, all possible": (8, 8, 8, 1, (2, 1, 2), 2),
    "8 tokens, all possible, 2 drafts": (8, 8, 2, 2, (2, 2, 2), 2),
    "8 tokens, all guessed, few possible": (8, 3, 8, 2, (2, 1, 2), 2),
}
"""Tokens, how many the target may say, how many the drafter, drafts, tails of three rounds, tokens wanted."""

# The coins of `match` are those of plain decoding, so its stories do not merge where those of others do.
SLOW = {("match", name) for name in list(SETTINGS)[2:5]} | {("match", "8 tokens, all possible")}
TOO_MANY = {("match", "8 tokens, 4 drafts"), ("match", "8 tokens, all possible, 2 drafts")}


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        pytest.param(*each, marks=pytest.mark.full if each in SLOW else ())
        for each in product(TESTED, SETTINGS)
        if each not in TOO_MANY
    ],
)
def test_three_rounds_emit_what_the_target_would(rule: str, name: str) -> None:
    vocabulary, possible, drawn, length, holds, enough = SETTINGS[name]
    drafter = one_by_one(vocabulary, drawn)
    service = Service(rule, target(vocabulary, possible), drafter, fixed(length), holds)
    assert distance(service, enough) == 0


@pytest.mark.parametrize("rule", TESTED)
def test_guesses_without_laws_count_as_certain_however_they_were_drawn(rule: str) -> None:
    drafter = one_by_one(3, 2)
    service = Service(rule, target(3, 3), drafter, fixed(1), (2, 1, 2), sends=False)
    assert distance(service, 3) == 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rule", TESTED[1:])
def test_three_rounds_of_many_laws(rule: str, seed: int) -> None:
    vocabulary, length = 3 + seed % 6, 1 + seed % 4
    law, drafter = target(vocabulary, 2 + seed % 2, str(seed)), one_by_one(vocabulary, 2, str(seed))
    service = Service(rule, law, drafter, fixed(length), (length + 1, length, length + 1))
    assert distance(service, 3) == 0


# --- what planners may look at ----------------------------------------------------------------------------------------


def head(law: Numbers, token: int) -> float:  # noqa: ARG001
    """A trained head sees the guesses before it, as the law does; here it is sure of token 0."""
    return float(law[0])


PLANNERS: dict[Looks, Planner] = {
    Looks.NOTHING: fixed(2),
    Looks.BEHIND: LooksBehind(2, 0.7),
    Looks.AT: LooksAtIt(2, 0.7),
    Looks.AHEAD: LooksAhead(2, 0.7),
}
DRAFTERS: dict[Draws, Drafter] = {
    Draws.CERTAIN: certain(3),
    Draws.ONE_BY_ONE: one_by_one(3, 2, "a"),
    Draws.AT_ONCE: at_once(3, 2, "a"),
}
SAYS: dict[Confidence, Says] = {
    Confidence.NONE: lambda _law, _token: 1.0,
    Confidence.TOKEN: own,
    Confidence.LARGEST: largest,
    Confidence.HEAD: head,
}
PRECAUTION = (Looks.AT, Draws.ONE_BY_ONE, Confidence.LARGEST)
"""Refused although no bias shows: a planner that ranks no further than this has nobody to promise it."""
COMBINATIONS = [
    each
    for each in product(PLANNERS, DRAFTERS, SAYS)
    if not (each[1] is Draws.AT_ONCE and each[2] is Confidence.HEAD)  # it needs tokens before it
]


@pytest.mark.parametrize("rule", TESTED)
@pytest.mark.parametrize(("looks", "draws", "confidence"), COMBINATIONS)
def test_a_combination_is_exact_or_refused(
    rule: str, looks: Looks, draws: Draws, confidence: Confidence
) -> None:
    """With a bonus that is drawn and nothing else, which is the harder case."""
    service = Service(
        rule,
        target(3, 3),
        DRAFTERS[draws],
        PLANNERS[looks],
        (2, 2, 2) if RULES[rule].laws else (2, 1),
        confidence=SAYS[confidence],
        further=False,
        sends=draws is not Draws.CERTAIN,
    )
    harmless = draws is Draws.CERTAIN or (looks, draws, confidence) == PRECAUTION
    if finding(rule, looks, draws, confidence).kind is Kind.EXACT or harmless:
        assert distance(service, 3) == 0
    else:
        assert distance(service, 3) > 0.01


@pytest.mark.parametrize("looks", PLANNERS)
@pytest.mark.parametrize("draws", [Draws.ONE_BY_ONE, Draws.AT_ONCE])
def test_ratio_stands_any_planner_when_the_guess_behind_the_window_is_tested_too(
    looks: Looks, draws: Draws
) -> None:
    """Then every guess is tested once, wherever windows end. The table does not count on it."""
    service = Service("ratio", target(3, 3), DRAFTERS[draws], PLANNERS[looks], (2, 2, 2))
    assert distance(service, 3) == 0


def test_block_does_not() -> None:
    planner = PLANNERS[Looks.AHEAD]
    service = Service("block", target(3, 3), DRAFTERS[Draws.ONE_BY_ONE], planner, (2, 2, 2))
    assert distance(service, 3) > 0.001
    assert finding("block", Looks.AHEAD, Draws.ONE_BY_ONE, Confidence.TOKEN).reason == OWN


# --- tails that are replaced ------------------------------------------------------------------------------------------

READS_HIDDEN: dict[str, Drafter] = {
    "a chain": on_features(3, 2, "a"),
    "slots at once": at_once(3, 2, "a"),
    "all possible": on_features(3, 3, "a"),
}


@pytest.mark.parametrize("further", [True, False])
@pytest.mark.parametrize("drafter", READS_HIDDEN)
@pytest.mark.parametrize("renews", [Renews.SOONER, Renews.LATER])
@pytest.mark.parametrize("rule", RULES_WITH_LAWS)
def test_a_tail_may_be_replaced_whole_on_every_newer_base(
    rule: str, renews: Renews, drafter: str, *, further: bool
) -> None:
    """As heads do it (`drafter.heads.tails.renewed`); under `ratio` with the same noise."""
    rounds = 2 if drafter == "all possible" else 3  # its stories are many
    service = Service(
        rule,
        target(3, 2),
        READS_HIDDEN[drafter],
        fixed(1),
        (3,) * rounds,
        further=further,
        renews=renews,
    )
    assert distance(service, rounds + 1) == 0


@pytest.mark.parametrize("rule", RULES_WITH_LAWS)
def test_to_keep_what_was_drawn_again_is_biased(rule: str) -> None:
    """The same token by the same noise, from a law that is not quite the one it is said to be drawn from."""
    chain = READS_HIDDEN["a chain"]
    service = Service(rule, target(3, 2), chain, fixed(1), (3, 3, 3), renews=Renews.LOOKING)
    assert distance(service, 4) > 0.005


# --- two requests, one budget -----------------------------------------------------------------------------------------


def one_budget(rule: str, planner: Planner, draws: Draws, says: Says, *, further: bool) -> Service:
    """Two drafts for both requests, of which either may take all."""
    return Service(
        rule,
        target(3, 2),
        DRAFTERS[draws],
        planner,
        (2, 2),
        budget=2,
        confidence=says,
        further=further,
    )


@pytest.mark.parametrize("rule", RULES_WITH_LAWS)
@pytest.mark.parametrize("renews", [Renews.NEVER, Renews.SOONER, Renews.LATER])
def test_three_rounds_of_two_requests_with_one_budget(rule: str, renews: Renews) -> None:
    """Two drafts for both: who has a tail when the other has none gets more."""
    service = Service(
        rule,
        target(3, 2),
        on_features(3, 2),
        LooksBehind(2, 0.7),
        (2, 1, 2),
        budget=2,
        renews=renews,
    )
    assert distance(service, 2, requests=2) == 0


@pytest.mark.full
@pytest.mark.parametrize("holds", [(2, 2), (2, 2, 2)])
def test_rounds_of_two_requests_with_one_budget_under_match(holds: tuple[int, ...]) -> None:
    service = Service("match", target(3, 2), one_by_one(3, 2), fixed(2), holds, budget=len(holds))
    assert distance(service, 2, requests=2) == 0


@pytest.mark.parametrize("further", [True, False])
@pytest.mark.parametrize("rule", RULES_WITH_LAWS)
@pytest.mark.parametrize(
    ("planner", "draws", "says"),
    [
        (fixed(2), Draws.ONE_BY_ONE, own),
        (LooksBehind(2, 0.7), Draws.ONE_BY_ONE, own),
        (Ranks(2), Draws.ONE_BY_ONE, head),
        (Ranks(2), Draws.AT_ONCE, largest),
        (Trades(2), Draws.AT_ONCE, largest),
    ],
)
def test_two_requests_that_share_a_budget_stay_independent(
    rule: str, planner: Planner, draws: Draws, says: Says, *, further: bool
) -> None:
    service = one_budget(rule, planner, draws, says, further=further)
    assert distance(service, 2, requests=2) == 0


@pytest.mark.parametrize("rule", RULES_WITH_LAWS)
@pytest.mark.parametrize(
    ("planner", "draws", "says"),
    [
        (Ranks(2), Draws.ONE_BY_ONE, own),
        (Ranks(2), Draws.AT_ONCE, own),
        (Trades(2), Draws.ONE_BY_ONE, largest),
        (Trades(2), Draws.ONE_BY_ONE, own),
    ],
)
def test_ranking_requests_by_their_own_tokens_is_biased(
    rule: str, planner: Planner, draws: Draws, says: Says
) -> None:
    service = one_budget(rule, planner, draws, says, further=False)
    assert distance(service, 2, requests=2) > 0.01


def of_the_table(name: str, **settings: object) -> Planner:
    """A planner as a verifier has it; drafting costs enough here that confidences matter to it."""
    config = PlannerConfig.model_validate({"name": name, "draft_length": 2} | settings)
    made = TABLE[name](config)
    if isinstance(made, Budget):
        made.costs = Costs(CostTable((1, 9), (1.0, 3.0)))
    return made


LITTLE = {"libraspec": {"block": 2, "alpha": 1.3}, "failfast": {"chunk": 1, "least": 0.7}}


@pytest.mark.parametrize("rule", RULES_WITH_LAWS)
@pytest.mark.parametrize("name", ["budget", "failfast", "libraspec"])
def test_a_planner_that_may_look_at_confidences_is_exact_where_it_is_careful(
    name: str, rule: str
) -> None:
    planner = of_the_table(name, careful=True, **LITTLE)
    assert finding(rule, planner.looks, Draws.ONE_BY_ONE, Confidence.TOKEN).kind is Kind.EXACT
    drafter = DRAFTERS[Draws.ONE_BY_ONE]
    alone = Service(rule, target(3, 3), drafter, planner, (2, 2, 2), further=False)
    assert distance(alone, 3) == 0
    shared = Service(rule, target(3, 2), drafter, planner, (2, 2), budget=2, further=False)
    assert distance(shared, 2, requests=2) == 0


@pytest.mark.parametrize("name", ["budget", "libraspec"])
def test_without_care_these_are_biased_where_guesses_are_drawn_and_refused_there(name: str) -> None:
    planner = of_the_table(name, **LITTLE, draft_length=3)
    drafter = DRAFTERS[Draws.ONE_BY_ONE]
    service = Service("ratio", target(3, 3), drafter, planner, (3, 3), further=False)
    assert distance(service, 3) > 0.001
    assert finding("ratio", planner.looks, Draws.ONE_BY_ONE, Confidence.TOKEN).kind is Kind.REFUSED


@pytest.mark.parametrize("planner", [Ranks(2), Trades(2)])
def test_match_stands_any_ranking(planner: Planner) -> None:
    service = Service(
        "match", target(3, 2), DRAFTERS[Draws.ONE_BY_ONE], planner, (2,), budget=2, further=False
    )
    assert distance(service, 2, requests=2) == 0
