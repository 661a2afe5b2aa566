"""What the dashboard and the log know of a prompt: when each piece of its answer came, and how it ended."""

import logging

import pytest

from orchestrator.front.dashboard.door import WatchedDoor
from orchestrator.front.dashboard.visits import MOST_PIECES, MOST_TOLD, Visit, Visits
from orchestrator.front.messages import Failure, Query
from protocol.messages import Done, Emit, Ending, Sampling, Statistics
from tests.orchestrator.http_app import FakeDoor

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def asked(visits: Visits, now: float = 10.0, choices: int = 1) -> Visit:
    query = Query((1, 2, 3), Ending(max_tokens=8), Sampling(), choices, trace=TRACE, name="cmpl-1")
    return visits.begin(query, now)


def piece(*drafted: bool, choice: int = 0) -> Emit:
    return Emit(1, choice, tuple(range(len(drafted))), "x", drafted)


def done(choice: int = 0, reason: str = "length") -> Done:
    return Done(1, choice, reason, 3, 5, Statistics(2, 6, 3, 1))


def test_a_visit_tells_when_its_pieces_came_and_what_was_in_them() -> None:
    visits = Visits()
    visit = asked(visits)
    visits.hear(visit, piece(False), 10.5)
    assert not visits.hear(visit, piece(True, True, True, False), 10.75)
    (running,) = visits.since(0, now=11.0)
    assert running["pieces"] == [[0.5, 1, 0], [0.75, 4, 3]]
    assert (running["over"], running["seconds"], running["tokens"]) == (False, 1.0, 5)
    assert visits.hear(visit, done(), 10.8)
    (over,) = visits.since(0, now=99.0)
    assert (over["over"], over["reason"], over["seconds"]) == (True, "length", 0.8)
    assert (over["rounds"], over["drafted"], over["accepted"], over["cached"]) == (2, 6, 3, 1)
    assert (over["name"], over["prompt"]) == ("cmpl-1", 3)
    assert over["trace"] == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_several_choices_are_over_when_all_are_and_the_first_shows_its_pieces() -> None:
    visits = Visits()
    visit = asked(visits, choices=2)
    visits.hear(visit, piece(False, choice=1), 10.5)
    assert not visits.hear(visit, done(1), 10.6)
    visits.hear(visit, piece(False), 10.7)
    assert visits.hear(visit, done(0), 10.8)
    assert (visit.tokens, visit.rounds) == (2, 4)
    assert [piece[1:] for piece in visit.pieces] == [(1, 0)]


def test_who_was_told_hears_only_what_is_new_and_what_runs() -> None:
    visits = Visits()
    first = asked(visits)
    visits.hear(first, done(), 11.0)
    asked(visits)
    known = visits.version
    assert [each["number"] for each in visits.since(0, 12.0)] == [1, 2]
    assert [each["number"] for each in visits.since(known, 12.0)] == [2]


def test_only_the_newest_are_kept_but_all_that_run() -> None:
    visits = Visits(kept=2)
    running = asked(visits)
    for _ in range(5):
        visits.hear(asked(visits), Failure(503, "no", code="no_verifier"), 11.0)
    told = visits.since(0, 12.0)
    assert [each["number"] for each in told] == [running.number, 5, 6]
    assert told[-1]["reason"] == "no_verifier"
    for _ in range(2 * MOST_TOLD):
        asked(visits)
    assert len(visits.since(0, 12.0)) == MOST_TOLD


def test_a_long_answer_is_told_in_bounded_room() -> None:
    visits = Visits()
    visit = asked(visits)
    for number in range(MOST_PIECES + 100):
        visits.hear(visit, piece(True), 11.0 + number)
    assert len(visit.pieces) == MOST_PIECES
    assert sum(tokens for _, tokens, _ in visit.pieces) == MOST_PIECES + 100
    assert visit.pieces[-1][0] == MOST_PIECES + 99 + 1.0


def test_nothing_is_heard_after_the_end() -> None:
    visits = Visits()
    visit = asked(visits)
    assert visits.leave(visit, 11.0)
    assert not visits.leave(visit, 12.0)
    assert not visits.hear(visit, done(), 12.0)
    assert (visit.reason, visit.seconds) == ("client gone", 1.0)


def test_every_prompt_leaves_one_line_with_its_ids(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = WatchedDoor(FakeDoor(), Visits(), clock=iter(range(99)).__next__)
    query = Query((1, 2, 3), Ending(max_tokens=8), Sampling(), trace=TRACE, name="cmpl-1")
    heard: list[object] = []
    watched.submit(query, heard.append)
    assert isinstance(heard[-1], Done)
    (record,) = caplog.records
    fields = record.__dict__["fields"]
    assert record.getMessage() == "prompt over"
    assert (fields["request"], fields["trace"]) == ("cmpl-1", "4bf92f3577b34da6a3ce929d0e0e4736")
    assert (fields["tokens"], fields["reason"]) == (3, "stop")


def test_a_client_that_leaves_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    door = FakeDoor(lambda submit: [Emit(submit.request, 0, (1,), "x")])
    watched = WatchedDoor(door, Visits())
    ticket = watched.submit(Query((1,), Ending(max_tokens=8), Sampling()), lambda _: None)
    watched.abort(ticket)
    watched.abort(ticket)
    assert [record.__dict__["fields"]["reason"] for record in caplog.records] == ["client gone"]
    assert door.aborted == [ticket, ticket]
