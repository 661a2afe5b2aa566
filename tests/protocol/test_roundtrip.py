"""The time from one loop to another and back, with clocks that have nothing in common."""

import pytest

from protocol.messages import Heartbeat
from protocol.roundtrip import RECENT, RoundTrip

AHEAD = 5000.0
"""The other machine has been up for so much longer."""


def test_nothing_is_known_before_an_answer_came() -> None:
    trip = RoundTrip(0.0)
    assert trip.seconds is None
    trip.heard(Heartbeat(sent=7), 0.5)
    assert trip.seconds is None


def test_a_beat_that_comes_back_tells_the_way_and_not_the_time_it_was_held() -> None:
    ours, theirs = RoundTrip(10.0), RoundTrip(10.0 + AHEAD)
    theirs.heard(ours.stamp(Heartbeat(), 10.0), 10.02 + AHEAD)
    ours.heard(theirs.stamp(Heartbeat(), 10.42 + AHEAD), 10.45)
    assert ours.seconds == pytest.approx(0.05, abs=2e-6)
    assert theirs.seconds is None


@pytest.mark.parametrize(("there", "back"), [(0.02, 0.03), (0.0, 0.05), (0.05, 0.0)])
def test_how_far_a_clock_is_ahead_is_known_within_half_of_the_way(
    there: float, back: float
) -> None:
    """Whatever share of it either direction takes: if all, then just so."""
    ours, theirs = RoundTrip(10.0), RoundTrip(10.0 + AHEAD)
    theirs.heard(ours.stamp(Heartbeat(), 10.0), 10.0 + there + AHEAD)
    ours.heard(theirs.stamp(Heartbeat(), 10.4 + AHEAD), 10.4 + back)
    assert ours.ahead is not None
    assert ours.ahead.doubt == pytest.approx(0.025, abs=2e-6)
    assert abs(ours.ahead.seconds - AHEAD) <= ours.ahead.doubt + 2e-6
    assert theirs.ahead is None, "it did not hear an answer yet"


def test_the_quickest_answer_tells_the_clock() -> None:
    """The others waited for a loop that was busy, who knows at which end."""
    trip = RoundTrip(0.0)
    for waited in (0.3, 0.0, 0.2):
        sent = int((AHEAD + 1.01) * 1_000_000)
        trip.heard(Heartbeat(sent=sent, echo=1_000_000), 1.02 + waited)
    assert trip.ahead is not None
    assert trip.ahead == pytest.approx((AHEAD, 0.01), abs=2e-6)


def test_the_newest_answers_count_most() -> None:
    ours, theirs = RoundTrip(1.0), RoundTrip(1.0)
    for beat in range(1, 41):
        way = 0.1 if beat <= 20 else 0.002
        theirs.heard(ours.stamp(Heartbeat(), float(beat)), beat + way / 2)
        ours.heard(theirs.stamp(Heartbeat(), beat + 0.3), beat + 0.3 + way / 2)
        if beat == 20:
            assert ours.seconds == pytest.approx(0.1, abs=1e-5)
    assert ours.seconds == pytest.approx(0.002, abs=1e-3)


def test_state_and_load_are_said_as_they_are() -> None:
    said = RoundTrip(0.0).stamp(Heartbeat("draining", 3), 0.25)
    assert said == Heartbeat("draining", 3, sent=250_000)


@pytest.mark.parametrize("echo", [1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("held", [0, 2**64 - 1])
def test_a_peer_that_makes_times_up_is_not_believed(echo: int, held: int) -> None:
    trip = RoundTrip(100.0)
    trip.heard(Heartbeat(sent=1, echo=echo, held=held), 100.0)
    assert trip.seconds is None


def test_a_peer_of_an_older_version_tells_no_times() -> None:
    trip = RoundTrip(0.0)
    trip.heard(Heartbeat("ready", 1), 1.0)
    assert trip.stamp(Heartbeat(), 2.0) == Heartbeat(sent=2_000_000)


def test_the_shortest_of_a_few_is_the_way_itself() -> None:
    """What is longer waited for a loop that was busy; an old short one is forgotten."""
    trip = RoundTrip(0.0)
    assert trip.shortest == 0.0
    for seconds in (0.3, 0.05, 0.2):
        trip.heard(Heartbeat(sent=1, echo=1_000_000), 1.0 + seconds)
    assert round(trip.shortest, 6) == 0.05
    for _ in range(RECENT):
        trip.heard(Heartbeat(sent=1, echo=1_000_000), 1.4)
    assert round(trip.shortest, 6) == 0.4
