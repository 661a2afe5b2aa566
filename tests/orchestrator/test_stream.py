"""What the terminal makes of a stream."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.commands.stream import (
    Painter,
    Span,
    StreamError,
    Tally,
    events,
    lengths_by,
    spans,
)
from tests.models import write_byte_llama


def data(*values: Any) -> list[str]:
    return [f"data: {json.dumps(value)}" for value in values]


def event(text: str, tokens: list[int], drafted: list[bool], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "token_ids": tokens, "drafted": drafted}
    return {"choices": [{**choice, "finish_reason": None, **more}]}


def test_events_end_with_the_word_for_it() -> None:
    lines = [": a comment", "", *data({"choices": []}), "data: [DONE]", *data({"choices": [1]})]
    assert list(events(lines)) == [{"choices": []}]


def test_an_error_in_the_stream_is_raised() -> None:
    with pytest.raises(StreamError, match="lost"):
        list(events(data({"error": {"message": "lost"}})))


def test_a_stream_that_just_stops_is_an_error() -> None:
    with pytest.raises(StreamError, match="before the answer did"):
        list(events(data({"choices": []})))


def test_spans_follow_the_tokens_even_when_text_lags() -> None:
    painter = Painter(lambda tokens: [2 for _ in tokens])
    assert painter.paint("ab", [1, 2], [True, False]) == [Span("ab", True)]
    assert painter.paint("cde", [3], [True]) == [Span("cd", False), Span("e", True)]
    assert painter.paint("f", [], []) == [Span("f", True)]


def test_text_without_tokens_is_nobodys_draft() -> None:
    assert Painter(lambda _: []).paint("stop", [], []) == [Span("stop", False)]


def test_without_a_tokenizer_an_event_has_one_colour() -> None:
    assert Painter().paint("abc", [1, 2], [True, False]) == [Span("abc", True)]
    assert Painter().paint("", [1], [True]) == []


def test_lengths_are_those_of_the_tokenizer(tmp_path: Path) -> None:
    write_byte_llama(tmp_path)
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokens = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("aé!").ids
    assert lengths_by(tmp_path)(tokens) == [1, 0, 1, 1]  # é is two bytes, so two tokens


def test_a_tally_counts_and_takes_over_what_the_service_counted() -> None:
    tally = Tally()
    stream = [
        event("ab", [1, 2], [True, False]),
        event(
            "", [], [], finish_reason="stop", draftmesh={"rounds": 1, "drafted": 2, "accepted": 1}
        ),
    ]
    assert list(spans(stream, Painter(), tally)) == [Span("ab", True)]
    assert tally == Tally(tokens=2, rounds=1, drafted=2, accepted=1, finish="stop")
    assert tally.line(0.5) == (
        "2 tokens in 0.50 s (4.0/s), 2.00 emitted per round, 50% of 2 drafts accepted"
    )


def test_a_line_never_divides_by_zero() -> None:
    assert Tally().line(0.0).startswith("0 tokens in 0.00 s")
    assert Tally(tokens=3, rounds=3).line(1.0).endswith("nothing was drafted")
