"""How nodes count, and what of it travels."""

import msgspec
import pytest

from protocol.facts import Distribution, level, one, together, under
from protocol.messages import LONGEST_LABEL, MOST_LABELS, Facts, Histogram


def test_an_observation_falls_between_two_bounds_and_a_bound_belongs_below() -> None:
    seen = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5, 100.0):
        seen.observe(value)
    assert seen.histogram() == Histogram((1.0, 2.0), (2, 2, 2), 107.5)


def test_a_distribution_without_observations_is_all_zeros() -> None:
    assert Distribution((1.0,)).histogram() == Histogram((1.0,), (0, 0), 0.0)


def test_a_clock_that_was_set_back_makes_no_negative_total() -> None:
    seen = Distribution((1.0,))
    seen.observe(-5.0)
    assert seen.histogram() == Histogram((1.0,), (1, 0), 0.0)


def test_counts_are_divided_by_the_rest_of_their_names_and_the_known_are_there_at_zero() -> None:
    counters = {"rows_cut": 2, "rows_new": 1, "steps": 7}
    assert under("rows_", counters, ("cut", "faulty")) == {"cut": 2, "faulty": 0, "new": 1}


def test_parts_of_facts_become_one() -> None:
    parts = (
        Facts({"a": one(1)}, {"x": level(2)}),
        Facts({"b": one(3)}, {}, {"h": Histogram((), (0,))}),
    )
    assert together(*parts) == Facts(
        {"a": {"": 1}, "b": {"": 3}}, {"x": {"": 2.0}}, {"h": Histogram((), (0,))}
    )


@pytest.mark.parametrize("name", ["x" * 5000, "é" * 500])
def test_whatever_peers_are_called_and_however_many_they_are_the_facts_can_travel(
    name: str,
) -> None:
    counts = {f"{number}{name}": number for number in range(2 * MOST_LABELS)}
    facts = together(Facts({"links": counts}, {"trips": dict.fromkeys(counts, 0.5)}))
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=Facts)
    assert read == facts
    assert len(read.counters["links"]) == len(read.gauges["trips"]) == MOST_LABELS
    assert max(map(len, read.counters["links"])) == LONGEST_LABEL
