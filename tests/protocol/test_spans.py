"""The text by which a trace goes from process to process: https://www.w3.org/TR/trace-context/."""

import pytest

from protocol.spans import Context, Recorder, Span, traced, traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = Context(int(TRACE, 16), int(SPAN, 16))


def test_a_context_comes_back_as_it_was() -> None:
    assert traceparent(CONTEXT) == f"00-{TRACE}-{SPAN}-01"
    assert traced(traceparent(CONTEXT)) == CONTEXT
    assert traced(traceparent(Context(1, 1))) == Context(1, 1)


def test_what_other_tracers_say_comes_along_if_it_is_not_too_long() -> None:
    theirs = CONTEXT._replace(state="rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
    assert traced(traceparent(theirs)) == theirs
    assert traced(traceparent(CONTEXT._replace(state="a=" + "b" * 511))) == CONTEXT


@pytest.mark.parametrize("flags", ["01", "03", "ff"])
def test_only_the_last_flag_says_sampled(flags: str) -> None:
    assert traced(f"00-{TRACE}-{SPAN}-{flags}") == CONTEXT


def test_a_later_version_may_say_more_behind() -> None:
    assert traced(f"42-{TRACE}-{SPAN}-01-more") == CONTEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}-02",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0x",
        f"00-{'+' + TRACE[1:]}-{SPAN}-01",
        "-".join(["00"] * 1000),
    ],
)
def test_what_is_no_sampled_context_is_not_traced(text: str) -> None:
    assert traced(text) is None


def test_records_are_taken_once() -> None:
    recorder = Recorder()
    assert not recorder
    span = Span(CONTEXT, 1, "queue", 0.0, 1.0, {})
    recorder.add(span)
    assert (bool(recorder), recorder.take(), recorder.take()) == (True, [span], [])
