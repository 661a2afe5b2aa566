"""What answers tell of speculation, in the shape that benchmark tools read, and how it adds up."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.front.messages import Failure, Status
from orchestrator.front.speculation import speculative_decoding
from protocol.messages import AnyMessage, Done, Statistics, Submit
from tests.orchestrator.http_app import READY, FakeDoor, Http, events

ROUNDS = ((0, 0, 3), (4, 4, 2), (4, 1, 1), (2, 0, 1), (0, 0, 1), (2, 2, 1), (4, 4, 1))


def counted(submit: Submit) -> Iterable[AnyMessage | Failure]:
    statistics = Statistics(10, 20, 15, history=ROUNDS)
    yield Done(submit.request, 0, "length", 2, 24, statistics)


@pytest.fixture
def http(tiny: Path) -> Http:
    return Http(tiny, FakeDoor(counted))


SUMMARY = {
    "mean_acceptance_length": 1 + 15 / 6,
    "draft_acceptance_rate": 15 / 20,
    "acceptance_histogram": [1, 1, 1, 0, 3],
    "acceptance_histogram_by_draft_length": {"2": [1, 0, 1], "4": [0, 1, 0, 0, 3]},
    "num_spec_steps": 6,
    "num_accepted_draft_tokens": 15,
    "num_draft_tokens": 20,
    "num_spec_tokens": 4,
}


def test_rounds_with_drafts_are_summed_up(http: Http) -> None:
    for answer in (http.complete(prompt="a").json(), http.chat().json()):
        assert answer["metrics"] == {"speculative_decoding": SUMMARY}


def test_in_a_stream_it_comes_with_the_usage(http: Http) -> None:
    options = {"include_usage": True}
    *pieces, last, _ = events(http.complete(prompt="a", stream=True, stream_options=options))
    assert not any("metrics" in piece for piece in pieces)
    assert last["metrics"] == {"speculative_decoding": SUMMARY}
    assert all("metrics" not in each for each in events(http.chat(stream=True)))


def test_it_can_be_told_round_by_round_or_not_at_all(tiny: Path) -> None:
    level = "per_request_spec_decode_metrics"
    detailed = Http(tiny, FakeDoor(counted), **{level: "detailed"}).complete(prompt="a").json()
    assert detailed["metrics"]["speculative_decoding"] == {
        **SUMMARY,
        "per_step_accepted": [4, 4, 1, 0, 2, 4],
        "per_step_drafted": [4, 4, 4, 2, 2, 4],
    }
    assert "metrics" not in Http(tiny, FakeDoor(counted), **{level: "none"}).chat().json()


@pytest.mark.parametrize("body", [{"n": 2}, {"prompt": ["a", "b"]}])
def test_several_choices_have_nothing_to_say_together(tiny: Path, body: dict[str, Any]) -> None:
    answer = Http(tiny, FakeDoor()).complete(**{"prompt": "a", **body}).json()
    assert answer["metrics"] == {"speculative_decoding": None}


def test_where_nothing_is_ever_drafted_there_is_nothing_to_tell(tiny: Path) -> None:
    off = Status(alive=True, ready=True, verifiers=1, context=64, vocabulary=261)
    answer = Http(tiny, FakeDoor(status=off)).complete(prompt="a").json()
    assert answer["metrics"] == {"speculative_decoding": None}


def test_a_request_without_drafts_has_zeros_and_nothing_is_divided_by_them() -> None:
    told = speculative_decoding(Statistics(3, history=((0, 0, 3),)), 2, "detailed")
    assert told == {
        "mean_acceptance_length": 1.0,
        "draft_acceptance_rate": 0.0,
        "acceptance_histogram": [0, 0, 0],
        "acceptance_histogram_by_draft_length": {},
        "num_spec_steps": 0,
        "num_accepted_draft_tokens": 0,
        "num_draft_tokens": 0,
        "num_spec_tokens": 2,
        "per_step_accepted": [],
        "per_step_drafted": [],
    }


def test_a_verifier_that_drafts_more_than_was_known_is_believed() -> None:
    told = speculative_decoding(Statistics(history=((6, 5, 1),)), READY.draft_length, "summary")
    assert told["acceptance_histogram"] == [0, 0, 0, 0, 0, 1, 0]
    assert told["num_spec_tokens"] == 6
