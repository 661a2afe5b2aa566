"""From reports of verifiers to curves and shares."""

from orchestrator.front.dashboard.history import History, reading
from protocol.facts import one
from protocol.messages import Facts, Report


def verifier(
    times: int, node_id: str = "verifier-0", rates: tuple[float, float] = (30.0, 10.0)
) -> Report:
    """One that did the same `times` times: four rounds, three with drafts."""
    counters = {
        "emitted_tokens": one(10 * times),
        "rounds": one(4 * times),
        "drafts": one(3 * times),
        "draft_tokens": one(9 * times),
        "accepted_tokens": one(6 * times),
        "drafted_at": {"0": 3 * times, "1": 3 * times, "2": 3 * times, "3": 0},
        "accepted_at": {"0": 3 * times, "1": 2 * times, "2": times, "3": 0},
        "drafted_by": {"drafter-0": 9 * times},
        "accepted_by": {"drafter-0": 6 * times},
        "plain_rounds": {"prefill": times, "late": 0},
        "requests_ended": {"stop": times},
    }
    gauges = {"decoding_rate": {"drafts": rates[0], "plain": rates[1]}}
    return Report(node_id, "verifier", times + 1, Facts(counters, gauges))


def story(*times: int) -> History:
    history = History()
    for second, each in enumerate(times):
        history.add(reading([verifier(each)], 100.0 + second))
    return history


def test_a_service_without_verifiers_has_nothing_to_show() -> None:
    history = History()
    history.add(reading([Report("front-0", "front", 1)], 5.0))
    assert list(history.points) == [[5.0, 0.0, 0.0, 0.0, 0.0]]
    assert history.gain == 0.0
    assert history.shares()["positions"] == []


def test_a_steady_pace_is_told_beside_what_it_would_be_without_drafts() -> None:
    history = story(0, 1, 2, 3, 4, 5)
    at, tokens, plain, chosen, accepted = history.points[-1]
    assert (at, tokens, chosen, accepted) == (105.0, 10.0, 3.0, 2.0)
    assert history.gain == 3.0
    assert plain == 3.33


def test_drafts_that_cost_more_than_they_bring_are_not_hidden() -> None:
    history = History()
    for second in range(3):
        history.add(reading([verifier(second, rates=(8.0, 10.0))], float(second)))
    assert history.gain == 0.8
    assert history.points[-1][2] == 12.5


def test_shares_are_those_of_the_span() -> None:
    shares = story(100, 101, 102).shares()
    assert (shares["seconds"], shares["rounds"], shares["tokens"]) == (2, 8, 20)
    assert shares["positions"] == [[6, 6], [6, 4], [6, 2], [0, 0]]
    assert shares["drafters"] == {"drafter-0": [18, 12]}
    assert shares["plain"] == {"prefill": 2}


def test_where_nothing_went_on_lately_they_are_since_the_beginning() -> None:
    shares = story(7, 7, 7).shares()
    assert (shares["seconds"], shares["rounds"]) == (None, 28)
    assert shares["positions"][0] == [21, 21]


def test_a_verifier_that_began_anew_does_not_make_numbers_negative() -> None:
    history = story(50, 51, 1)
    assert all(value >= 0 for point in history.points for value in point)
    assert history.shares()["rounds"] == 4


def test_verifiers_add_up() -> None:
    both = [verifier(1), verifier(2, "verifier-1")]
    found = reading(both, 1.0)
    assert found.totals["rounds"] == 12
    assert found.accepted == (9, 6, 3, 0)
    assert found.by == {"drafter-0": (27, 18)}
    assert found.rates == (60.0, 20.0)


def test_the_curves_reach_back_so_far_and_no_further() -> None:
    history = History(span=3)
    for second in range(9):
        history.add(reading([verifier(second)], float(second)))
    assert [point[0] for point in history.points] == [6.0, 7.0, 8.0]
    assert history.shares()["rounds"] == 8
