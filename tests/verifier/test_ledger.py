"""What a verifier counts, told as stories; the target's next token is always the last one plus one."""

from collections.abc import Sequence
from typing import Any

import pytest

from protocol.messages import Abort, DraftTailStream, Limits, Refuse, Report
from tests import identities
from tests.verifier.rig import END
from tests.verifier.test_core import DRAFTER, FRONT, SECOND, Rig
from verifier.config import PlannerConfig
from verifier.planner import Candidate, Choice, Outcome
from verifier.planners.budget import Budget
from verifier.planners.fixed import Fixed


def count(rig: Rig, name: str) -> int:
    """A counter, all labels together."""
    return sum(rig.core.facts().counters[name].values())


def reasons(rig: Rig, name: str) -> dict[str, int]:
    """A counter by its labels, without those at zero."""
    return {label: n for label, n in rig.core.facts().counters[name].items() if n}


def seen(rig: Rig, name: str) -> tuple[int, float]:
    """How many observations a histogram has, and their sum."""
    histogram = rig.core.facts().histograms[name]
    return sum(histogram.counts), pytest.approx(histogram.total)  # type: ignore[return-value]


def bound(*limits: Limits, **settings: Any) -> Rig:
    """The first token is committed; the request is bound to the first drafter and the drafter knows it."""
    rig = Rig(*(limits or (Limits(),)), **settings)
    rig.submit(max_tokens=30)
    rig.step()
    rig.says(DRAFTER)
    return rig


def test_before_traffic_every_number_is_zero_and_none_is_missing() -> None:
    facts = Rig(Limits()).core.facts()
    identities.check(facts)
    assert not any(n for each in facts.counters.values() for n in each.values())
    assert facts.counters["accepted_at"] == {"0": 0, "1": 0, "2": 0}
    assert facts.gauges["pages"] == facts.gauges["pages_free"] == {"": 64.0}
    assert facts.gauges["drafters"] == {"": 1.0}
    assert all(not sum(each.counts) and not each.total for each in facts.histograms.values())


def test_right_wrong_and_half_right_drafts_are_counted_by_position() -> None:
    rig = bound()
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    rig.tail(5, 5, 9, 80, 81)
    rig.step()
    rig.tail(7, 7, 80)
    rig.step()
    facts = rig.core.facts()
    assert facts.counters["drafted_at"] == {"0": 3, "1": 2, "2": 2}
    assert facts.counters["accepted_at"] == {"0": 2, "1": 1, "2": 1}
    for name, value in {"drafts": 3, "draft_tokens": 7, "accepted_tokens": 4, "rounds": 4}.items():
        assert facts.counters[name] == {"": value}, name
    assert facts.counters["emitted_tokens"] == {"": 8}
    assert facts.counters["planned_tokens"] == {"": 7}
    assert facts.counters["wasted_tokens"] == {"": 3}
    assert reasons(rig, "choices") == {"set": 3}

    assert facts.counters["drafted_by"] == {"drafter-10": 7}
    assert facts.counters["accepted_by"] == {"drafter-10": 4}


def test_what_a_step_was_expected_to_bring_stands_beside_what_it_brought() -> None:
    rig = bound(planner=Budget(PlannerConfig(draft_length=3, patience=0.0)))
    for _ in range(6):
        rig.step()
    gauges = rig.core.facts().gauges
    assert gauges["step_emitted"] == {"predicted": 1.0, "actual": 1.0}
    assert gauges["step_time"] == pytest.approx({"predicted": 0.01, "actual": 0.01})
    assert gauges["calibration_error"] == {}
    rig.tail(7, 7, 80, 81)
    rig.step()
    errors = rig.core.facts().gauges["calibration_error"]
    assert set(errors) == {"ngram before", "ngram after"}
    assert reasons(rig, "choices") == {"waste": 6, "worth": 1}


class Knows(Fixed):
    """A planner that knows what steps cost: with drafts twice as much as without."""

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:
        lengths = super().lengths(candidates, budget, beside)
        self.choice = Choice("set", None, 0.02 if any(lengths) else 0.01, 0.01)
        return lengths


@pytest.mark.parametrize(("kind", "without"), [(Fixed, 100.0), (Knows, 133.3)])
def test_the_pace_stands_beside_what_it_would_be_without_drafts(
    kind: type[Fixed], without: float
) -> None:
    """Two steps of 10 ms with one round each: four tokens, then one. Half of the first is what drafts cost."""
    rig = bound(planner=kind(PlannerConfig(draft_length=3, patience=0.0)))
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    rig.step()
    rates = rig.core.facts().gauges["decoding_rate"]
    assert rates["drafts"] == pytest.approx(250.0, rel=0.02)
    assert rates["plain"] == pytest.approx(without, rel=0.02)


def test_what_lies_behind_the_end_is_cut_and_not_emitted() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=30, stop_token_ids=(6,))
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    facts = rig.core.facts()
    assert facts.counters["accepted_tokens"] == {"": 3}
    assert (count(rig, "emitted_tokens"), count(rig, "cut_tokens")) == (3, 2)
    assert reasons(rig, "requests_ended") == {"stop": 1}


# --- why a round was plain ---------------------------------------------------------------------------------------


def test_the_end_of_a_prompt_and_a_round_before_the_drafter_answered() -> None:
    rig = bound()
    rig.step()
    assert reasons(rig, "plain_rounds") == {"prefill": 1, "late": 1}


def test_a_drafter_without_a_guess() -> None:
    rig = bound()
    rig.tail(1, 1)
    rig.step()
    assert reasons(rig, "plain_rounds") == {"prefill": 1, "no_tail": 1}


def test_nobody_drafts() -> None:
    rig = Rig()
    rig.submit(max_tokens=3)
    rig.run(4)
    assert reasons(rig, "plain_rounds") == {"prefill": 1, "no_drafter": 2}


def test_nobody_would_take_it_now() -> None:
    rig = bound()
    rig.hear(DRAFTER, Refuse("full", "no", 1, 1))
    rig.step()
    assert reasons(rig, "plain_rounds") == {"prefill": 1, "waiting": 1}
    assert reasons(rig, "refused_by_drafters") == {"full": 1}


def test_no_drafts_are_wanted() -> None:
    rig = Rig(Limits(), draft_length=0)
    rig.submit(max_tokens=2)
    rig.run(3)
    assert reasons(rig, "plain_rounds") == {"prefill": 1, "off": 1}


def test_the_last_token_of_an_answer_leaves_no_room_for_drafts() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=2)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6)
    rig.step()
    assert reasons(rig, "plain_rounds") == {"prefill": 1, "no_room": 1}


# --- rows, bindings and drafters -----------------------------------------------------------------------------------


def test_every_kind_of_stale_row_is_counted_as_such() -> None:
    rig = bound()
    rig.tail(1, 1, 5, 80)
    rig.step()
    rig.tail(1, 3, 81)
    rig.hear(DRAFTER, DraftTailStream(1, 9, 1, 1, (5,)))
    rig.hear(DRAFTER, DraftTailStream(77, 1, 1, 1, (5,)))
    rig.tail(99, 99, 5)
    kinds = {"cut": 1, "other_epoch": 1, "unknown_request": 1, "faulty": 1}
    assert reasons(rig, "stale_rows") == kinds
    assert reasons(rig, "unbindings") == {"fault": 1}


def test_whatever_code_a_drafter_makes_up_the_reasons_stay_few() -> None:
    rig = bound()
    for number in range(9):
        generation = rig.core._generations[1]
        rig.hear(DRAFTER, Refuse(f"code-{number}", "", 1, generation.epoch))
        rig.now += 60
        rig.step()
    assert reasons(rig, "refused_by_drafters").keys() <= {"other", "stale"}


def test_bindings_begin_and_end_for_a_reason() -> None:
    rig = bound(Limits(), Limits())
    rig.down(DRAFTER)
    rig.step()
    assert rig.core.facts().gauges["bound"] == {"drafter-11": 1.0}
    rig.hear(FRONT, Abort(1, "enough"))
    assert (count(rig, "bindings"), reasons(rig, "unbindings")) == (2, {"link": 1, "abort": 1})
    assert reasons(rig, "requests_ended") == {"abort": 1}


def test_the_report_of_a_drafter_is_passed_on_under_the_name_of_its_link() -> None:
    rig = Rig(Limits(), Limits())
    rig.hear(DRAFTER, Report("verifier-0", "verifier", 3))
    rig.hear(SECOND, Report("x", "drafter", 1))
    passed = [(each.node_id, each.role, each.number) for each in rig.core.drafting.reports]
    assert passed == [("drafter-10", "drafter", 3), ("drafter-11", "drafter", 1)]
    rig.down(DRAFTER)
    assert [each.node_id for each in rig.core.drafting.reports] == ["drafter-11"]


def test_a_report_that_is_too_long_is_not_passed_on() -> None:
    rig = Rig(Limits())
    rig.hear(DRAFTER, Report("n" * 4096, "drafter", 1))
    assert rig.core.drafting.reports == []


# --- requests --------------------------------------------------------------------------------------------------------


def test_times_of_an_answer_add_up() -> None:
    rig = Rig(max_running=1)
    rig.submit(1, max_tokens=3)
    rig.submit(2, max_tokens=3)
    rig.run(8)
    assert seen(rig, "queued_seconds") == (2, 0.03)
    assert seen(rig, "prefill_seconds") == (2, 0.02)
    assert seen(rig, "decode_seconds") == (2, 0.04)
    assert seen(rig, "inference_seconds") == (2, 0.06)
    assert seen(rig, "whole_seconds") == (2, 0.09)
    assert seen(rig, "first_token_seconds") == (2, 0.05)
    assert seen(rig, "between_tokens_seconds") == (4, 0.04)
    assert seen(rig, "per_token_seconds") == (2, 0.02)
    assert seen(rig, "step_seconds") == (6, 0.06)
    assert seen(rig, "request_prompt_tokens") == (2, 6)
    assert seen(rig, "request_output_tokens") == (2, 6)


def test_an_aborted_choice_tells_of_no_times() -> None:
    rig = Rig()
    rig.submit(max_tokens=9)
    rig.step()
    rig.hear(FRONT, Abort(1, ""))
    assert seen(rig, "whole_seconds") == (0, 0)
    assert seen(rig, "first_token_seconds") == (1, 0.01)


def test_refused_submissions_are_counted_by_why() -> None:
    rig = Rig()
    rig.submit(1, tokens=())
    rig.core.draining = True
    rig.submit(2)
    assert reasons(rig, "requests_refused") == {"invalid": 1, "draining": 1}
    assert reasons(rig, "requests_ended") == {}


def test_a_prompt_that_was_there_before_hits_the_prefix_cache() -> None:
    rig = Rig()
    prompt = tuple(range(1, 14))
    for request in (1, 2):
        rig.submit(request, prompt, max_tokens=2)
        rig.run(3)
    assert (count(rig, "prefix_queries"), count(rig, "prefix_hits")) == (26, 12)
    assert count(rig, "prompt_tokens") == 26


def test_a_choice_that_lost_its_pages_is_counted_once_and_waits_again() -> None:
    rig = Rig(pages=6, context=20)
    rig.submit(1, (1, 2, 3, 4), max_tokens=12)
    rig.submit(2, (1, 2, 3, 5), max_tokens=12)
    rig.run(40)
    assert count(rig, "preemptions") >= 1
    assert seen(rig, "queued_seconds")[0] == 2
    assert count(rig, "emitted_tokens") == 24


def test_gauges_say_who_runs_and_who_waits() -> None:
    rig = Rig(max_running=1)
    rig.submit(1, max_tokens=5)
    rig.submit(2, max_tokens=5)
    rig.step()
    gauges = rig.core.facts().gauges
    assert (gauges["running"], gauges["waiting"]) == ({"": 1.0}, {"": 1.0})
    assert gauges["pages_used"][""] == pytest.approx(1 - gauges["pages_free"][""] / 64)


# --- the checker of all this -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sabotage",
    [
        "accepted a bonus token",
        "forgot the cut",
        "counted a plain round twice",
        "positions that rise",
        "an answer without a time",
    ],
)
def test_the_identities_notice_a_number_that_cannot_be(sabotage: str) -> None:
    rig = bound()
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    rig.submit(2, max_tokens=2, stop_token_ids=(END,))
    rig.run(40)
    ledger = rig.core.record.ledger
    identities.check(rig.core.facts())
    match sabotage:
        case "accepted a bonus token":
            ledger._accepted[3] -= 1
            ledger._accepted[4] += 1
        case "forgot the cut":
            ledger._cut += 1
        case "counted a plain round twice":
            ledger._plain["late"] += 1
        case "positions that rise":
            ledger._accepted[3] += 2
            ledger._accepted[2] -= 3
        case "an answer without a time":
            ledger._ended["stop"] += 1
    assert identities.broken(rig.core.facts())
    identities.spoilt()


def test_going_to_rest_and_coming_back_are_changes_and_trials_are_none() -> None:
    """A step whose drafters had nothing to say is none, either: `worth` and `waste` are both drafting."""
    rig = Rig(Limits())
    counted = []
    for reason in ("worth", "waste", "probe", "worth", "rest", "probe", "rest", "worth", "waste"):
        rig.core.record.ledger.chosen(Choice(reason), 0, Outcome([], 1, 0, 0.01, 0.01))
        counted.append(count(rig, "drafting_changes"))
    assert counted == [0, 0, 0, 0, 1, 1, 1, 2, 2]
