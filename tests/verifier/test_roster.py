"""Who drafts for whom: who must be tried, who brings most, then the least loaded; refusals make a request wait."""

import pytest

from protocol.link import LinkUp
from protocol.messages import Heartbeat, Limits
from verifier.roster import (
    FORGOTTEN,
    KNOWN,
    LONGEST_WAIT,
    NEVER,
    PROBE_EVERY,
    Drafter,
    Roster,
    Waits,
)


def roster(*limits: Limits) -> Roster:
    """Drafters with links 1, 2, ..."""
    made = Roster()
    for link, each in enumerate(limits, 1):
        made.add(LinkUp(link, "drafter", f"drafter-{link}", each, "ngram"))
    return made


def chosen(made: Roster, *, length: int = 10, waits: Waits | None = None, now: float = 0.0) -> int:
    """The link of the drafter that a request gets, or 0."""
    drafter = made.choose(length, waits or Waits(), now)
    return drafter.link if drafter else 0


def bind(made: Roster, link: int, count: int = 1) -> None:
    drafter = made.get(link)
    assert drafter is not None
    drafter.bound += count


# --- the choice --------------------------------------------------------------------------------------------------


def test_nobody_drafts_where_nobody_is() -> None:
    assert (chosen(roster()), len(roster())) == (0, 0)


def test_the_least_loaded_drafter_is_chosen_and_of_equals_the_oldest() -> None:
    made = roster(Limits(), Limits(), Limits())
    choices = []
    for _ in range(7):
        choices.append(chosen(made))
        bind(made, choices[-1])
    assert choices == [1, 2, 3, 1, 2, 3, 1]


def test_a_drafter_that_left_is_not_chosen_and_one_that_came_is() -> None:
    made = roster(Limits(), Limits())
    made.remove(1)
    made.remove(1)
    assert (chosen(made), 1 in made, 2 in made) == (2, False, True)
    bind(made, 2)
    made.add(LinkUp(7, "drafter", "drafter-7"))
    assert chosen(made) == 7


def test_a_draining_drafter_takes_nothing_new_until_it_is_ready_again() -> None:
    made = roster(Limits(), Limits())
    made.heard(1, Heartbeat("draining"), 0.0)
    made.heard(9, Heartbeat("draining"), 0.0)
    assert chosen(made) == 2
    made.heard(1, Heartbeat("ready"), 0.0)
    assert chosen(made) == 1


def test_a_full_drafter_is_passed_over() -> None:
    made = roster(Limits(requests=2), Limits())
    bind(made, 2, 5)
    choices = []
    for _ in range(3):
        choices.append(chosen(made))
        bind(made, choices[-1])
    assert choices == [1, 1, 2]


@pytest.mark.parametrize(("length", "link"), [(62, 1), (63, 1), (64, 0), (65, 0), (300, 0)])
def test_a_context_limit_leaves_room_for_a_guess(length: int, link: int) -> None:
    assert chosen(roster(Limits(context=64)), length=length) == link


def test_a_limit_of_zero_is_none() -> None:
    made = roster(Limits(context=0, requests=0))
    bind(made, 1, 10_000)
    assert chosen(made, length=10**6) == 1


# --- waiting after a refusal -----------------------------------------------------------------------------------------


def test_a_refused_request_goes_elsewhere_and_comes_back_when_the_wait_is_over() -> None:
    made, waits = roster(Limits(), Limits()), Waits()
    bind(made, 2)
    waits.refused(1, "full", 10.0)
    assert [chosen(made, waits=waits, now=now) for now in (10.0, 10.24, 10.25)] == [2, 2, 1]


def test_waits_double_up_to_a_bound() -> None:
    waits, gaps = Waits(), []
    for _ in range(10):
        waits.refused(1, "full", 0.0)
        gaps.append(waits.deadline(0.0))
    assert gaps == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]


def test_waits_are_of_one_link() -> None:
    waits = Waits()
    waits.refused(1, "full", 0.0)
    waits.refused(1, "full", 0.0)
    waits.refused(2, "full", 0.0)
    assert (waits.over(1, 0.3), waits.over(2, 0.3), waits.over(3, 0.0)) == (False, True, True)


def test_a_request_that_is_too_long_never_asks_there_again() -> None:
    waits = Waits()
    waits.refused(1, "context", 0.0)
    assert (waits.over(1, 1e12), waits.deadline(0.0)) == (False, NEVER)


def test_the_deadline_is_the_next_end_of_a_wait() -> None:
    waits = Waits()
    waits.refused(1, "full", 0.0)
    waits.refused(2, "full", 0.1)
    deadlines = [waits.deadline(now) for now in (0.0, 0.25, 0.35)]
    assert (deadlines, Waits().deadline(0.0)) == ([0.25, 0.35, NEVER], NEVER)


# --- patience ---------------------------------------------------------------------------------------------------


def drafter() -> Drafter:
    return Drafter(1, "drafter-1", "ngram", Limits())


def test_a_prompt_drafter_is_worth_waiting_for() -> None:
    each = drafter()
    assert all(each.worth_waiting() for _ in range(100))


def test_a_drafter_that_is_mostly_late_is_waited_for_only_now_and_then() -> None:
    each = drafter()
    for _ in range(20):
        each.answered(in_time=False)
    waited = [each.worth_waiting() for _ in range(4 * PROBE_EVERY)]
    assert waited.count(True) == 4


def test_a_drafter_that_became_prompt_again_is_waited_for_again() -> None:
    each = drafter()
    for _ in range(20):
        each.answered(in_time=False)
    for _ in range(10):
        each.answered(in_time=True)
    assert all(each.worth_waiting() for _ in range(10))


# --- load, way and gain -----------------------------------------------------------------------------------------------


def known(made: Roster, link: int) -> Drafter:
    drafter = made.get(link)
    assert drafter is not None
    return drafter


def gains(made: Roster, link: int, accepted: int, rounds: int = KNOWN) -> None:
    """So many rounds had so many guesses of this drafter accepted."""
    for _ in range(rounds):
        known(made, link).gained(accepted)


def far(made: Roster, link: int, seconds: float) -> None:
    """This drafter's beats come back after so long."""
    made.heard(link, Heartbeat(sent=1, echo=1_000_000), 1.0 + seconds)


def chosen_and_bound(made: Roster, count: int) -> list[int]:
    """Who gets these requests, one after the other; all of them go on."""
    choices = []
    for _ in range(count):
        choices.append(chosen(made))
        bind(made, choices[-1])
    return choices


def test_what_a_drafter_does_for_other_verifiers_counts_as_load() -> None:
    made = roster(Limits(), Limits())
    gains(made, 1, 3)
    gains(made, 2, 3)
    bind(made, 1, 2)
    made.heard(1, Heartbeat(load=2), 0.0)
    made.heard(2, Heartbeat(load=3), 0.0)
    assert (known(made, 1).others, known(made, 2).others, chosen(made)) == (0, 3, 1)


def test_of_equally_loaded_drafters_the_nearer_is_chosen() -> None:
    made = roster(Limits(), Limits())
    made.stepped(0.02)
    far(made, 1, 0.05)
    far(made, 2, 0.001)
    assert chosen(made) == 2


def test_a_way_counts_by_the_steps_that_it_takes() -> None:
    """50 ms are two and a half steps of a small target, and a quarter of one of a large target."""
    choices = []
    for step in (0.02, 0.2):
        made = roster(Limits(), Limits())
        made.stepped(step)
        far(made, 1, 0.05)
        gains(made, 1, 3)
        gains(made, 2, 3)
        bind(made, 2)
        choices.append(chosen(made))
    assert choices == [2, 1]


def test_the_drafter_whose_guesses_are_accepted_gets_more_requests() -> None:
    made = roster(Limits(), Limits())
    gains(made, 1, 1)
    gains(made, 2, 3)
    assert chosen_and_bound(made, 8) == [2, 2, 1, 2, 2, 2, 1, 2]


def test_a_drafter_that_brings_nothing_gets_no_request_however_near_it_is() -> None:
    """A request has its one token a round anyway: what is shared, and what a way makes less, is what guesses bring."""
    made = roster(Limits(), Limits())
    made.stepped(0.005)
    far(made, 2, 0.1)
    gains(made, 1, 0)
    gains(made, 2, 2)
    assert set(chosen_and_bound(made, 20)) == {2}


def test_drafters_that_nobody_knows_are_tried_in_turn_however_far_they_are() -> None:
    """Else the nearest has every request, also if it never drafts."""
    made = roster(Limits(), Limits(), Limits())
    made.stepped(0.005)
    far(made, 1, 0.1)
    far(made, 3, 0.2)
    assert chosen_and_bound(made, 6) == [2, 1, 3, 2, 1, 3]


def test_drafters_that_bring_nothing_have_their_turns_also_where_one_request_runs_at_a_time() -> (
    None
):
    made = roster(Limits(), Limits(), Limits())
    made.stepped(0.005)
    far(made, 1, 0.1)
    for link in (1, 2, 3):
        gains(made, link, 0)
    assert [chosen(made) for _ in range(6)] == [2, 3, 1, 2, 3, 1]


def test_one_request_finds_out_what_a_new_drafter_is_worth() -> None:
    made = roster(Limits(), Limits())
    gains(made, 1, 2)
    bind(made, 1, 3)
    assert chosen_and_bound(made, 3) == [2, 1, 1]
    gains(made, 2, 2)
    assert chosen_and_bound(made, 3) == [2, 2, 2]


def test_the_first_rounds_count_alike() -> None:
    """The first one is often late: it must not be all that is known."""
    each = drafter()
    for accepted in (0, 4, 4, 4):
        each.gained(accepted)
    assert each.gain == 3.0


def test_a_drafter_that_was_bad_once_is_tried_again() -> None:
    made = roster(Limits(), Limits())
    gains(made, 1, 0)
    gains(made, 2, 5)
    bind(made, 2)
    choices = [chosen(made) for _ in range(FORGOTTEN + 1)]
    assert choices == [2] * FORGOTTEN + [1]


def test_a_drafter_that_was_left_takes_nothing_until_it_says_something() -> None:
    made = roster(Limits(), Limits())
    known(made, 1).doubted = True
    assert chosen_and_bound(made, 3) == [2, 2, 2]
    made.heard(1, Heartbeat(), 0.0)
    assert chosen(made) == 1
