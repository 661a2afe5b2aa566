"""Planted faults that random histories seldom show have a story each, which goes wrong with its fault."""

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from tests.sim.planted import PLANTED, planted

STORIES: Final = {
    "token ids unchecked": (
        "verifier.test_tail",
        "test_a_token_outside_of_the_vocabulary_is_a_fault",
    ),
    "base beyond the committed": (
        "verifier.test_tail",
        "test_a_row_that_knows_more_than_was_committed_is_a_fault",
    ),
    "no length cap": (
        "verifier.test_core",
        "test_a_faulty_row_costs_its_request_the_drafter_for_a_while_and_nobody_else",
    ),
    "epoch not compared": (
        "verifier.test_core",
        "test_rows_of_another_epoch_are_counted_and_dropped",
    ),
    "fault without close": (
        "verifier.test_core",
        "test_a_faulty_row_costs_its_request_the_drafter_for_a_while_and_nobody_else",
    ),
    "waits do not double": (
        "verifier.test_core",
        "test_a_refused_request_goes_on_plainly_and_asks_again_after_doubled_waits",
    ),
    "slow drafter tried by the next request": (
        "verifier.test_failover",
        "test_who_comes_later_does_not_try_a_drafter_that_was_left_until_it_is_heard_of",
    ),
    "one left for good": (
        "verifier.test_failover",
        "test_who_comes_later_does_not_try_a_drafter_that_was_left_until_it_is_heard_of",
    ),
    "nearest drafter has every request": (
        "verifier.test_roster",
        "test_one_request_finds_out_what_a_new_drafter_is_worth",
    ),
    "shared place given up without a word": (
        "drafter.test_sharing",
        "test_a_verifier_that_comes_late_gets_its_share_of_a_full_drafter",
    ),
    "closed mirror keeps its news": (
        "drafter.test_sharing",
        "test_a_mirror_that_is_closed_says_nothing_more",
    ),
    "link number unchecked by the dialler": (
        "protocol.test_link",
        "test_a_frame_of_another_link_is_no_sign_of_life",
    ),
    "dial unchecked in an answer": (
        "protocol.test_link",
        "test_a_welcome_for_an_earlier_dial_is_no_answer",
    ),
    "silence judged before reading": (
        "protocol.test_endpoint",
        "test_a_node_that_was_busy_reads_before_it_judges_silence",
    ),
    "held frame survives its link": (
        "protocol.test_endpoint",
        "test_an_answerer_that_holds_a_frame_still_says_that_a_link_is_over",
    ),
    "beat behind a held frame counted": (
        "protocol.test_endpoint",
        "test_beats_that_come_due_behind_a_held_frame_leave_no_hole",
    ),
    "removed peer still dialled": (
        "protocol.test_loop",
        "test_a_list_of_peers_is_dialled_and_what_leaves_the_list_is_hung_up_on",
    ),
    "preempted row computed": (
        "verifier.test_scheduler",
        "test_the_last_in_the_queue_loses_its_pages_first",
    ),
    "one ban too many": (
        "verifier.test_scheduler",
        "test_ends_are_banned_until_the_least_number_of_tokens",
    ),
    "Abort ignored": (
        "verifier.test_core",
        "test_a_cancelled_request_frees_everything_and_says_its_last_words",
    ),
    "draining verifier takes requests": (
        "verifier.test_core",
        "test_a_draining_verifier_finishes_what_runs_and_takes_nothing_new",
    ),
    "lost verifier unnoticed by the front door": (
        "orchestrator.test_front_core",
        "test_a_lost_verifier_fails_its_requests_and_only_those",
    ),
    "client gone unsaid by the front door": (
        "orchestrator.test_front_core",
        "test_a_client_that_leaves_is_told_to_the_verifier_once",
    ),
    "chunk of an older lease taken": (
        "kvtransfer.test_handover",
        "test_a_late_chunk_of_an_older_lease_is_dropped_and_its_place_goes_back",
    ),
    "chunk out of turn taken": (
        "verifier.test_handover",
        "test_a_chunk_out_of_turn_ends_it",
    ),
    "lease outlives its pages": (
        "verifier.test_handover",
        "test_a_choice_that_loses_its_pages_wants_no_more_of_them",
    ),
    "lease outlives its link": (
        "verifier.test_handover",
        "test_a_prefill_node_that_is_gone_leaves_the_rest_to_us",
    ),
    "prompt outlives its link": (
        "verifier.test_prefill_core",
        "test_a_verifier_that_is_gone_leaves_nothing",
    ),
}
"""By the name of the fault: a module below `tests`, and a test in it."""


def told(name: str) -> Iterator[Callable[[], Any]]:
    """The story of a fault, with each of its parameters."""
    module, function = STORIES[name]
    story = getattr(importlib.import_module(f"tests.{module}"), function)
    marks = [each for each in getattr(story, "pytestmark", ()) if each.name == "parametrize"]
    if not marks:
        yield story
        return
    [mark] = marks
    names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
    for case in mark.args[1]:
        values = getattr(case, "values", case)
        values = values if isinstance(values, tuple) else (values,)
        given = dict(zip([each.strip() for each in names], values, strict=True))
        yield partial(story, **given)


def wrong(name: str) -> list[str]:
    """How the story goes wrong."""
    found = []
    for story in told(name):
        try:
            story()
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # a fault may break anything
            found.append(repr(error)[:200])
    return found


def test_every_rare_fault_has_a_story() -> None:
    assert set(STORIES) == {name for name, fault in PLANTED.items() if fault.rare}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_wrong_with_its_fault_only(name: str) -> None:
    assert wrong(name) == []
    with planted(name):
        assert wrong(name)
