"""What a process logs: one line an event, for people or for programs."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from protocol.logs import JsonLines, TextLines, log_event


def record(text: str, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("front.requests", logging.INFO, "x.py", 1, text, None, None)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    if fields:
        made.__dict__["fields"] = fields
    return made


def test_text_has_its_fields_behind_it() -> None:
    line = TextLines().format(record("prompt over", request="cmpl-1", seconds=1.23456))
    assert line.endswith(",250 INFO front.requests prompt over request=cmpl-1 seconds=1.235")


def test_json_is_one_object_a_line_whatever_is_in_it() -> None:
    line = JsonLines("front", "front-0").format(record("two\nlines", request='a"b', tokens=3))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "front.requests",
        "message": "two\nlines",
        "role": "front",
        "node": "front-0",
        "request": 'a"b',
        "tokens": 3,
    }
    assert line.startswith('{"time": ')


def test_a_fault_stays_in_its_line() -> None:
    made = record("it failed")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    said = json.loads(JsonLines("verifier", "verifier-0").format(made))
    assert "ValueError: why" in said["exception"]


def test_empty_fields_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_event(logging.getLogger("x"), "over", request="a", trace="", tokens=0, field=None)
    (found,) = caplog.records
    assert found.__dict__["fields"] == {"request": "a", "tokens": 0}


DIES = """
import logging, sys, threading
from protocol.logs import configure
configure("INFO", sys.argv[1], "drafter", "drafter-0")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
logging.getLogger("x").info("before")
raise RuntimeError("the end")
"""


def test_what_a_process_dies_of_is_a_line_like_any_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES, "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert [each["message"] for each in said] == ["division by zero", "before", "the end"]
    assert [each["level"] for each in said] == ["critical", "info", "critical"]
    assert {each["node"] for each in said} == {"drafter-0"}
