"""Spans that were exported, read again and drawn."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from orchestrator.traces.drawing import lines
from orchestrator.traces.picture import html, svg
from orchestrator.traces.reading import Seen, SpanFileError, spans, traces, whole
from orchestrator.traces.waterfall import Waterfall, waterfall
from protocol.span_files import LARGEST, FileExporter
from protocol.spans import Context, Span, folder_of, traceparent
from protocol.tracing import Tracer, exporter
from tests.orchestrator.test_cli import run

SVG = "{http://www.w3.org/2000/svg}"
TRACE = Context(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)


def seen(number: str, parent: str, name: str, start: float, end: float, **more: Any) -> Seen:
    fields: dict[str, Any] = {"role": "verifier", "node": "verifier-0", "trace": "t", **more}
    return Seen(
        number=number, parent=parent, name=name, start=start, end=end, attributes={}, **fields
    )


STORY = [
    seen("d1", "m", "draft", 10.2, 10.3, role="drafter", node="drafter-0"),
    seen("a", "", "text_completion tiny", 10.0, 11.0, role="front", node="front-0"),
    seen("m", "a", "drafter mirror", 10.1, 10.9, role="drafter", node="drafter-0"),
    seen("c", "a", "decode", 10.1, 10.9),
    seen("v2", "c", "verify", 10.5, 10.8),
    seen("v1", "c", "verify", 10.2, 10.6),
]


@pytest.fixture
def drawn() -> Waterfall:
    return waterfall(STORY)


# --- files ------------------------------------------------------------------------------------------------------------


def kept(folder: Path, *records: Span) -> list[Seen]:
    """What is read of these records after they were exported into a folder."""
    found = exporter(f"file://{folder}")
    assert isinstance(found, FileExporter)
    tracer = Tracer("verifier", "verifier-0", found, lambda: 0.0, lambda: 5_000_000_000)
    tracer(records)
    tracer.close()
    (file,) = folder.iterdir()
    assert file.name == "verifier-0.jsonl"
    return list(spans(file.read_text().splitlines()))


def test_what_a_process_keeps_here_is_read_as_it_was(tmp_path: Path) -> None:
    about: dict[str, str | bool | int | float] = {
        "spec.drafted": 4,
        "spec.drafter": "d",
        "hot": True,
        "share": 0.5,
    }
    (span,) = kept(tmp_path / "new", Span(TRACE, 1, "verify", 1.0, 1.25, about))
    assert (span.trace, span.parent) == (traceparent(TRACE)[3:35], traceparent(TRACE)[36:52])
    assert (span.name, span.role, span.node) == ("verify", "verifier", "verifier-0")
    assert (span.start, span.end) == (6.0, 6.25)
    assert span.attributes == about
    assert not span.failed


def test_a_file_that_is_full_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "verifier-0.jsonl").write_text(" " * (LARGEST + 1))
    tracer = Tracer("verifier", "verifier-0", FileExporter(tmp_path), lambda: 0.0)
    tracer([Span(TRACE, 1, "verify", 1.0, 2.0, {})])
    tracer.close()
    assert (tmp_path / "verifier-0.old.jsonl").stat().st_size == LARGEST + 1
    assert len(list(spans((tmp_path / "verifier-0.jsonl").read_text().splitlines()))) == 1


def test_only_file_endpoints_are_folders() -> None:
    assert folder_of("http://127.0.0.1:4317") is None
    assert folder_of("file:///a/b") == Path("/a/b")


def test_spans_of_other_collectors_are_read_too() -> None:
    """Their names for what failed, numbers as text, and no role of ours."""
    span = {
        "traceId": "t", "spanId": "s", "name": "GET", "startTimeUnixNano": "1000000000",
        "endTimeUnixNano": 2000000000, "status": {"code": 2},
        "attributes": [{"key": "tags", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "7"}]}}}],
    }  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "caller"}}]}
    line = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}
    (found,) = spans([json.dumps(line), "", '{"resourceMetrics": []}'])
    assert (found.role, found.node, found.parent) == ("caller", "caller", "")
    assert (found.end - found.start, found.failed) == (1.0, True)
    assert found.attributes == {"tags": ["a", 7]}


def test_a_line_that_is_being_written_is_left_for_later() -> None:
    assert list(spans(["{}", '{"resourceSp'])) == []
    with pytest.raises(SpanFileError, match="line 1 is no JSON"):
        list(spans(['{"resourceSp', "{}"]))


def test_the_last_trace_is_the_one_that_began_last_and_whole_when_its_answer_left() -> None:
    later = [seen("x", "caller", "chat", 20.0, 21.0, trace="u", role="front")]
    found = traces([*later, *STORY])
    assert list(found) == ["t", "u"]
    assert whole(STORY)
    assert whole(later), "its parent is its caller's, who is not here"
    assert not whole([each for each in STORY if each.role != "front"])


# --- waterfalls -------------------------------------------------------------------------------------------------------


def test_rows_follow_the_tree_and_rounds_share_one(drawn: Waterfall) -> None:
    assert [(row.depth, row.name, len(row.bars)) for row in drawn.rows] == [
        (0, "text_completion tiny", 1),
        (1, "drafter mirror", 1),
        (2, "draft", 1),
        (1, "decode", 1),
        (2, "verify", 2),
    ]
    assert (drawn.begun, drawn.seconds) == (10.0, 1.0)
    verify = drawn.rows[-1]
    assert verify.label == "    verify x2"
    assert [bar.start for bar in verify.bars] == pytest.approx([0.2, 0.5])
    assert verify.busy == pytest.approx(0.6), "what overlaps is counted once"


def test_spans_whose_parent_is_missing_stand_at_the_top() -> None:
    assert [row.depth for row in waterfall([STORY[0], STORY[4]]).rows] == [0, 0]


def test_text_has_a_bar_where_something_went_on(drawn: Waterfall) -> None:
    shown = [line for line, _ in lines(drawn, 100)]
    assert len(shown) == len(drawn.rows) + 1
    room = 100 - len("text_completion tiny") - len("verifier-0") - 14
    begins = len(shown[0]) - room
    whole, _, draft, *_ = (line[begins:] for line in shown)
    assert whole == "█" * room
    assert draft.index("█") == int(0.2 * room)
    assert draft.count("█") == pytest.approx(0.1 * room, abs=1)
    assert shown[-1].endswith("1.000 s")
    assert shown[2].split()[:4] == ["draft", "drafter-0", "100.0", "ms"]


def test_a_picture_has_a_bar_for_every_span_in_its_place(drawn: Waterfall) -> None:
    root = ET.fromstring(svg(drawn))  # noqa: S314  # our own
    bars = [each for each in root.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert len(bars) == len(STORY)
    told = {bar.findtext(f"{SVG}title", "").split(":")[0]: bar for bar in bars}
    whole, draft = told["text_completion tiny on front-0"], told["draft on drafter-0"]
    left, wide = float(whole.attrib["x"]), float(whole.attrib["width"])
    assert float(draft.attrib["x"]) == pytest.approx(left + 0.2 * wide, abs=0.2)
    assert float(draft.attrib["width"]) == pytest.approx(0.1 * wide, abs=0.2)
    assert draft.attrib["class"] != whole.attrib["class"]


def test_what_spans_say_cannot_become_markup() -> None:
    nasty = seen("a", "", "<script>&", 0.0, 1.0)
    drawn = waterfall([nasty])
    ET.fromstring(svg(drawn))  # noqa: S314  # our own
    assert "<script>" not in html(drawn)
    assert "&lt;script&gt;&amp;" in html(drawn)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_draws_what_a_folder_holds(tmp_path: Path) -> None:
    kept(tmp_path / "spans", Span(TRACE, 1, "verify", 1.0, 1.25, {}))
    number = traceparent(TRACE)[3:35]
    code, text = run("trace", str(tmp_path / "spans"), "--id", number[:8])
    assert code == 0
    assert (
        text.splitlines()[0].split()[:4] == ["verify", "verifier-0", "250.0", "ms"]
        or number in text
    )
    picture, page = tmp_path / "a.svg", tmp_path / "a.html"
    assert run("trace", str(tmp_path / "spans"), "--svg", str(picture), "--html", str(page))[0] == 0
    ET.parse(picture)  # noqa: S314  # our own
    assert number in page.read_text()
    told = json.loads(run("trace", str(tmp_path / "spans"), "--output", "json")[1])
    assert (told["trace"], told["rows"][0]["name"]) == (number, "verify")
    code, text = run("trace", str(tmp_path / "spans"), "--id", "ffff")
    assert (code, text) == (1, f"error: There is no trace ffff in {tmp_path / 'spans'}.\n")


@pytest.mark.parametrize(
    "content", ["what?", '{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}', "\xff"]
)
def test_a_file_without_spans_is_a_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_text(content, encoding="latin-1")
    code, text = run("trace", str(file))
    assert code == 1
    assert text.startswith(f"error: {file} holds no spans: ")
    code, text = run("trace", str(tmp_path / "nowhere.jsonl"))
    assert code == 1
    assert "No such file" in text
