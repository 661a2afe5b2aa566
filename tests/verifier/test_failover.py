"""Where a request goes when its drafter is slow, drains, or shares its name."""

import pytest

from protocol.messages import DraftClose, DraftSync, DraftTailStream, Heartbeat, Limits, Refuse
from tests.verifier.rig import tokens
from tests.verifier.test_core import DRAFTER, FRONT, SECOND, Rig
from verifier.config import PlannerConfig
from verifier.drafting import TOO_LATE, TOO_LONG
from verifier.pace import SHORT, USUAL
from verifier.planners import PLANNERS


def opened(rig: Rig, link: int) -> list[tuple[int, int]]:
    """Requests and epochs of the mirrors that a drafter is asked to open now."""
    return [(each.request, each.epoch) for each in rig.says(link) if isinstance(each, DraftSync)]


def steps(rig: Rig, seconds: float, step: float = 0.02) -> None:
    """Steps of the target for so long."""
    for _ in range(round(seconds / step)):
        rig.step(step)


def known(rig: Rig) -> int:
    """Output tokens of the first request, which its drafter has been told."""
    return len(rig.core._generations[1].output.tokens)


def test_a_request_leaves_a_drafter_that_does_not_answer_for_one_that_may() -> None:
    """Its link lives, so silence does not end it; the next epoch opens elsewhere, with all that is committed."""
    rig = Rig(Limits(), Limits(), context=200)
    rig.submit(1, max_tokens=90)
    rig.step()
    assert opened(rig, DRAFTER) == [(1, 1)]
    steps(rig, TOO_LONG + 0.1)
    assert DraftClose(1, 1, "slow") in rig.says(DRAFTER)
    [sync] = [each for each in rig.says(SECOND) if isinstance(each, DraftSync)]
    assert (sync.request, sync.epoch, len(sync.output) >= TOO_LATE) == (1, 2, True)
    assert tokens(rig.run(90)) == list(range(4, 94))


def test_who_comes_later_does_not_try_a_drafter_that_was_left_until_it_is_heard_of() -> None:
    """It may be frozen: then every new request would find out by itself, and wait as long."""
    rig = Rig(Limits(), Limits(), context=200)
    rig.submit(1, max_tokens=190, ignore_eos=True)
    steps(rig, TOO_LONG + 0.1)
    rig.says(DRAFTER)
    rig.submit(2, max_tokens=190, ignore_eos=True)
    rig.submit(3, max_tokens=190, ignore_eos=True)
    rig.step()
    assert opened(rig, DRAFTER) == []
    rig.hear(DRAFTER, Heartbeat())
    rig.submit(4, max_tokens=190, ignore_eos=True)
    rig.step()
    assert opened(rig, DRAFTER) == [(4, 1)]


def test_where_no_other_would_take_it_a_request_stays_with_a_slow_drafter() -> None:
    """A new mirror would only be later."""
    rig = Rig(Limits(), Limits(context=2), context=200)
    rig.submit(1, max_tokens=190, ignore_eos=True)
    steps(rig, 3.0)
    assert not any(isinstance(each, DraftClose) for each in rig.says(DRAFTER))
    assert rig.core.drafting.bindings == 1


@pytest.mark.parametrize("guesses", [(), (4,)])
def test_a_drafter_that_answers_is_not_slow_even_if_it_has_no_guess(
    guesses: tuple[int, ...],
) -> None:
    rig = Rig(Limits(), Limits(), context=200)
    rig.submit(1, max_tokens=190, ignore_eos=True)
    for _ in range(100):
        rig.step(0.02)
        rig.says(DRAFTER)
        rig.tail(known(rig), known(rig), *guesses)
    assert (rig.core.drafting.bindings, rig.core.drafting.unbindings) == (1, {})


@pytest.mark.parametrize(("every", "stays"), [(2, True), (4, True), (8, False), (20, False)])
def test_a_drafter_that_mostly_answers_in_time_is_kept_and_one_that_seldom_does_is_left(
    every: int, *, stays: bool
) -> None:
    """An answer in time now and then, even with guesses that hit, is not worth a better drafter."""
    rig = Rig(Limits(), Limits(), context=400)
    rig.submit(1, max_tokens=390, ignore_eos=True)
    for number in range(80):
        rig.step(0.02)
        rig.says(DRAFTER)
        if number % every == 0:
            rig.tail(known(rig), known(rig), known(rig) + 4)
    assert (rig.core.drafting.unbindings["slow"] == 0) is stays


def test_a_request_that_moved_for_slowness_moves_half_as_soon_again() -> None:
    """Where all are slow, as with a long prompt, it must come to rest somewhere."""
    rig = Rig(Limits(), Limits(), context=2000, pages=600)
    rig.submit(1, max_tokens=1900, ignore_eos=True)
    moved: list[float] = []
    for _ in range(1000):
        before = rig.core.drafting.unbindings["slow"]
        rig.hear(DRAFTER, Heartbeat())
        rig.hear(SECOND, Heartbeat())
        rig.step(0.02)
        if rig.core.drafting.unbindings["slow"] > before:
            moved.append(rig.now)
    waits = [later - sooner for sooner, later in zip([0.0, *moved], moved, strict=False)]
    assert [round(wait / TOO_LONG) for wait in waits] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(("usual", "longest"), [(0.01, SHORT), (0.2, USUAL * 0.2)])
def test_where_both_work_in_turn_a_frozen_drafter_holds_up_a_step_no_longer_than_usual(
    usual: float, longest: float
) -> None:
    """There a step waits for its tail as long as that takes, a second at most: a draft model may need it."""
    own = PlannerConfig(draft_length=3, overlap=False)
    rig = Rig(Limits(), context=200, planner=PLANNERS["fixed"](own))
    rig.submit(1, max_tokens=190, ignore_eos=True)
    rig.step()
    for _ in range(30):
        rig.says(DRAFTER)
        assert rig.step() == []  # it waits
        rig.now += usual
        rig.tail(known(rig), known(rig), 98, 98, 98)
        assert rig.step()
    waited = rig.core.drafting.pace.patient_until - rig.now
    assert waited == pytest.approx(longest, rel=0.05)


def test_requests_leave_a_draining_drafter_at_once_and_go_on_elsewhere() -> None:
    rig = Rig(Limits(), Limits())
    rig.submit(1, max_tokens=20)
    rig.submit(2, max_tokens=20)
    rig.step()
    assert [opened(rig, link) for link in (DRAFTER, SECOND)] == [[(1, 1)], [(2, 1)]]
    rig.hear(DRAFTER, Heartbeat("draining", 1))
    assert rig.says(DRAFTER) == [DraftClose(1, 1, "draining")]
    rig.step()
    assert opened(rig, SECOND) == [(1, 2)]
    assert sorted(tokens(rig.run(30))) == sorted([*range(4, 24)] * 2)


def test_one_that_drains_and_thinks_better_of_it_is_no_storm() -> None:
    """A drafter that says now this, now that, is asked again after waits that double."""
    rig = Rig(Limits())
    rig.submit(1, max_tokens=36)
    syncs = 0
    for _ in range(36):
        rig.hear(DRAFTER, Heartbeat("ready"))
        rig.step(0.02)
        syncs += len(opened(rig, DRAFTER))
        rig.hear(DRAFTER, Heartbeat("draining"))
    assert 1 < syncs <= 3


def test_a_row_of_the_epoch_before_the_move_changes_nothing() -> None:
    rig = Rig(Limits(), Limits())
    rig.submit(1, max_tokens=20)
    rig.step()
    rig.hear(DRAFTER, Heartbeat("draining", 1))
    rig.step()
    rig.hear(DRAFTER, DraftTailStream(1, 1, 1, 1, (77,)), Refuse("unknown", request=1, epoch=1))
    assert rig.core.counters["rows_other_epoch"] == 1
    assert rig.core.counters["refused_stale"] == 1
    assert tokens(rig.run(30)) == list(range(4, 24))


def test_two_processes_that_claim_one_name_are_two_drafters() -> None:
    """Links tell them apart; a name is for people. Where one of them dies, only its requests move."""
    rig = Rig(Limits(), Limits())
    for drafter in rig.core.drafting.roster:
        drafter.node_id = "drafter-0"
    rig.submit(1, max_tokens=20)
    rig.submit(2, max_tokens=20)
    rig.step()
    assert [opened(rig, link) for link in (DRAFTER, SECOND)] == [[(1, 1)], [(2, 1)]]
    assert rig.core.facts().gauges["bound"] == {"drafter-0": 2.0}
    rig.down(DRAFTER)
    rig.step()
    assert opened(rig, SECOND) == [(1, 2)]
    assert rig.says(FRONT)
