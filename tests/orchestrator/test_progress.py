"""How far a process is while it loads: from its status line to the person who waits."""

import json
import threading
from io import StringIO

import pytest
from rich.console import Console

from orchestrator.commands.output import progress
from orchestrator.commands.service import watching
from orchestrator.launch.events import Changed, Progress, Said
from orchestrator.launch.plan import Child
from orchestrator.launch.process import parse
from orchestrator.launch.supervisor import Supervisor
from orchestrator.models import Report, silent
from protocol.process import advance
from verifier.config import VerifierConfig


def loading(report: Report, lines: str) -> list[tuple[str, str]]:
    """A supervisor hears these status lines of a verifier, and tells; what it told but progress."""
    core = Supervisor([Child(VerifierConfig.model_validate({"model": "."}), "verifier")], 0.0)
    told: list[tuple[str, str]] = []
    watch = watching(lambda name, text: told.append((name, text)), report)
    for line in lines.splitlines():
        status = parse(line.encode())
        assert status is not None
        for action in core.handle(Said("verifier-0", status.pop("state"), status), 0.0):
            if isinstance(action, Changed):
                watch(action)
        assert core.members["verifier-0"].state == "loading"
    return told


def test_what_a_verifier_says_of_its_graphs_reaches_the_one_who_waits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for done in range(3):
        advance("verifier-0", "graphs", done, 2)
    heard: list[tuple[str, int, int]] = []
    told = loading(lambda *each: heard.append(each), capsys.readouterr().out)
    assert heard == [("verifier-0: graphs", done, 2) for done in range(3)]
    assert told == [], "progress is no news of its own"


@pytest.mark.parametrize("progress", [None, "half", {"what": "graphs"}, {"what": 1, "done": 0}])
def test_a_status_line_without_such_numbers_is_one_like_any_other(progress: object) -> None:
    line = json.dumps({"state": "loading", "progress": progress})
    assert loading(lambda *_: pytest.fail("nothing was said"), line) == []


def test_where_no_terminal_watches_quarters_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(lines=True) as report:
        for done in range(10):
            report("verifier-0: graphs", done, 9)
    assert [line.strip() for line in capsys.readouterr().err.splitlines()] == [
        f"verifier-0: graphs: {done} of 9" for done in (0, 3, 5, 7, 9)
    ]
    with progress() as report:
        report("download", 1, 2)
    assert report is silent


def test_on_a_terminal_there_is_a_bar_until_the_service_is_up() -> None:
    screen = StringIO()
    with progress(console=Console(file=screen, force_terminal=True, width=80)) as report:
        assert not screen.getvalue(), "nothing is drawn before there is something to draw"
        launcher = threading.Thread(target=report, args=("verifier-0: graphs", 3, 4))
        launcher.start()
        launcher.join()
    drawn = screen.getvalue()
    assert "verifier-0: graphs" in drawn
    assert " 75 %" in drawn
    report("verifier-0: graphs", 4, 4)  # it is started again while the service runs
    assert screen.getvalue() == drawn


def test_changes_without_progress_are_news_as_before() -> None:
    told: list[tuple[str, str]] = []
    watch = watching(lambda *each: told.append(each), silent)
    watch(Changed("drafter-0", "ready"))
    watch(Changed("verifier-0", "loading", progress=Progress("graphs", 1, 2)))
    watch(Changed("drafter-0", "waiting", "killed by signal 9"))
    assert told == [("drafter-0", "ready"), ("drafter-0", "died: killed by signal 9")]
