"""The schedule: slots by batch size, smoothing, warm-up, thresholds that differ up and down."""

import pytest
from pydantic import ValidationError

from tests.verifier.planners.rig import outcome, planner, tails
from verifier.config import SlotConfig
from verifier.planners.schedule import Slot, begun, learned, slot_of

SMALL = SlotConfig(lengths=(1, 3, 7), down=-0.25)


def after(slot: Slot, config: SlotConfig, *accepted: int) -> Slot:
    """After batches of one request each, that accepted what it could of this."""
    for each in accepted:
        slot = learned(config, slot, [min(each, slot.length)])
    return slot


def test_a_slot_begins_where_it_is_told_else_in_the_middle() -> None:
    assert begun(SMALL, 3) == begun(SMALL) == begun(SMALL, 5) == Slot(3, 2.0)
    assert begun(SMALL, 7) == Slot(7, 6.0)


def test_full_acceptance_takes_fifteen_batches_to_the_longest() -> None:
    before, then = after(begun(SMALL), SMALL, *[3] * 14), after(begun(SMALL), SMALL, *[3] * 15)
    assert before.length == 3
    assert then.length == 7
    assert then.smoothed == pytest.approx(2.9648, abs=5e-5)


def test_no_acceptance_takes_fifteen_batches_to_the_shortest() -> None:
    slot = after(begun(SMALL), SMALL, *[0] * 15)
    assert slot.length == 1
    assert slot.smoothed == pytest.approx(0.0704, abs=5e-5)


def test_a_change_of_text_moves_it_back_and_no_further() -> None:
    slot = after(begun(SMALL), SMALL, *[3] * 15)
    assert slot.length == 7
    slot = after(slot, SMALL, *[3] * 5)
    for _ in range(5):
        slot = learned(SMALL, slot, [1])
    assert slot.length == 3
    assert slot.smoothed == pytest.approx(1.6516, abs=5e-5)
    for _ in range(100):
        slot = learned(SMALL, slot, [1])
    assert slot.length == 3
    assert slot.smoothed == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("length", "smoothed", "then"),
    [
        (7, 2.25, 3),
        (7, 2.26, 7),
        (3, 0.25, 1),
        (3, 0.26, 3),
        (1, 0.5, 1),
        (1, 0.51, 3),
        (3, 2.5, 3),
        (3, 2.51, 7),
        (7, 0.2, 1),  # several steps down at once
    ],
)
def test_thresholds_lie_between_lengths_and_lower_on_the_way_down(
    length: int, smoothed: float, then: int
) -> None:
    config = SlotConfig(lengths=(1, 3, 7), down=-0.25, smoothing=1e-12, every=1, warm_up=0)
    assert learned(config, Slot(length, smoothed), [0]).length == then


def test_a_slot_at_zero_tries_again_after_a_bounded_number_of_batches() -> None:
    config = SlotConfig(lengths=(0, 1, 3), every=5, warm_up=0, probe_every=10)
    slot = after(Slot(0, -1.0), config, *[0] * 9)
    assert slot.length == 0
    slot = after(slot, config, 0)
    assert slot == Slot(1, 1.0, batches=10)


def test_a_slot_that_has_only_zero_never_tries() -> None:
    config = SlotConfig(lengths=(0,), every=1, warm_up=0, probe_every=1)
    assert after(begun(config), config, *[0] * 50).length == 0


def test_the_ceiling_stops_what_does_not_rise() -> None:
    config = SlotConfig(lengths=(1, 3, 7), every=1, warm_up=0, ceiling=1.0, smoothing=1e-12)
    assert learned(config, Slot(7, 2.6), [3]).length == 3  # ceil(2.6) tokens at most
    assert learned(config, Slot(3, 2.6), [3]).length == 7  # but a rise is never stopped


@pytest.mark.parametrize(
    ("batch", "slot"), [(40, 64), (16, 8), (20, 32), (5, 8), (1, 1), (999, 64)]
)
def test_a_batch_is_padded_up_and_takes_the_slot_below(batch: int, slot: int) -> None:
    assert slot_of(batch, (1, 8, 32, 64), (1, 2, 4, 8, 16, 32, 64)) == slot


def test_the_default_table_drafts_three_alone_and_nothing_for_sixty_four() -> None:
    schedule = planner("schedule")
    assert schedule.lengths(tails([0.9] * 9), 99) == [3]
    assert schedule.lengths(tails(*[[0.9] * 9] * 64), 999) == [0] * 64
    assert schedule.ahead(1) == 0


def test_the_planner_learns_in_the_slot_that_chose() -> None:
    schedule = planner("schedule")
    for _ in range(15):
        length = schedule.lengths(tails([0.9] * 9), 99)[0]
        schedule.learn(outcome((length, length)))
    assert schedule.lengths(tails([0.9] * 9), 99) == [7]
    assert schedule.lengths(tails(*[[0.9] * 9] * 8), 99) == [1] * 8


def test_lengths_that_do_not_rise_are_refused() -> None:
    with pytest.raises(ValidationError, match="lengths must rise"):
        SlotConfig(lengths=(1, 1))
