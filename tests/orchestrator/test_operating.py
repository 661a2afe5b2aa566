"""The commands for a service that runs, against real processes that need no model."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator.cli import app
from orchestrator.commands.logs import entries, merged
from orchestrator.commands.status import Numbers, numbers
from orchestrator.ending import EXIT_CODES
from orchestrator.launch.local import LocalService
from protocol.rundir import running
from tests.orchestrator.test_cli import run
from tests.orchestrator.test_local_service import ENOUGH, News, children, gone


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("DRAFTMESH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def service(tiny: Path) -> Iterator[LocalService]:
    """A front door and a drafter."""
    service = LocalService(children(tiny), News())
    assert service.wait_up(ENOUGH)
    yield service
    service.stop()
    service.wait(ENOUGH)


@pytest.mark.parametrize("command", [["status"], ["down"], ["logs"], ["down", "--service", "x"]])
def test_without_a_service_the_code_is_3(command: list[str]) -> None:
    code, text = run(*command)
    assert code == 3
    assert text.startswith("error: No service")


def test_the_exit_codes_are_in_the_help() -> None:
    text = run("--help")[1]
    for code, meaning in EXIT_CODES.items():
        assert re.search(rf"{code} +{re.escape(meaning)}", text)


def test_help_shows_examples_line_by_line() -> None:
    assert "Examples:\n    orchestrator up" in run("up", "--help")[1]


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    """Every command that can be typed."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_has_examples_that_it_would_take() -> None:
    known = dict(commands(typer.main.get_command(app)))
    assert len(known) > 20
    for path, command in known.items():
        lines = [line.strip() for line in (command.epilog or "").splitlines()]
        examples = [line.split() for line in lines if line.startswith("orchestrator ")]
        assert examples, path
        assert tuple(examples[0][1 : 1 + len(path)]) == path
        for _, *words in examples:
            name = next(each for each in known if tuple(words[: len(each)]) == each)
            flags = {flag for each in known[name].params for flag in each.opts}
            typed = {word for word in words[: _ours(words)] if word.startswith("-")}
            assert typed <= flags, (name, typed - flags)


def _ours(words: list[str]) -> int:
    """Where another program begins."""
    return next((i for i, word in enumerate(words) if word in {"|", ">"}), len(words))


def test_a_shell_can_complete_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator"],
        env=os.environ
        | {"_ORCHESTRATOR_COMPLETE": "complete_bash", "COMP_WORDS": "orchestrator sta", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["status"]


def test_the_status_tells_every_process(service: LocalService) -> None:
    code, text = run("status", "--json")
    assert code == 0
    told = json.loads(text)
    nodes = {node["name"]: node for node in told["nodes"]}
    assert set(nodes) == {"front-0", "drafter-0"}
    (state,) = running()
    assert told["url"] == service.url
    for node in state.nodes:
        assert nodes[node.name]["pid"] == node.pid
        assert nodes[node.name]["state"] == "ready"
    lines = run("status")[1].splitlines()
    assert lines[0].split() == [service.name, "tiny", f"{service.url}/v1"]
    assert lines[1].split("\t")[:3] == ["node", "role", "process"]
    assert [line.split("\t")[0] for line in lines[2:4]] == ["front-0", "drafter-0"]


def test_logs_are_those_of_the_nodes_that_were_asked_for(service: LocalService) -> None:
    (service.logs / "drafter-9.log").write_text(
        "2026-01-02 10:00:00,000 INFO x one\n2026-01-02 10:00:01,000 INFO x two\nand more\n"
    )
    code, text = run("logs", "drafter-9", "-n", "1", "--service", service.name)
    assert (code, text) == (
        0,
        "drafter-9  2026-01-02 10:00:01,000 INFO x two\ndrafter-9  and more\n",
    )
    code, text = run("logs", "nobody")
    assert code == 3
    assert "There is no log of 'nobody'; there is drafter-0, drafter-9, front-0" in text


def test_lines_of_json_are_put_in_order_and_left_as_they_are(service: LocalService) -> None:
    for node, second in (("drafter-8", 3), ("drafter-9", 2)):
        line = f'{{"time": "2026-01-02T10:00:0{second}.000Z", "node": "{node}"}}\n'
        (service.logs / f"{node}.log").write_text(line)
    code, text = run("logs", "drafter-8", "drafter-9", "--service", service.name)
    assert code == 0
    assert [json.loads(line)["node"] for line in text.splitlines()] == ["drafter-9", "drafter-8"]


def test_who_follows_reads_to_the_end(tiny: Path) -> None:
    parent, name = _parent(tiny)
    command = [sys.executable, "-m", "orchestrator", "logs", "-f", "--service", name]
    with parent, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        (state,) = [each for each in running() if each.name == name]
        with (Path(state.logs) / "front-0.log").open("a") as log:
            log.write("2026-01-02 10:00:00,000 INFO x the last word\n")
        assert any("the last word" in line for line in following.stdout)
        (Path(state.logs) / "drafter-7.log").write_text("2026-01-02 10:00:00,000 INFO x new here\n")
        assert any(line.startswith("drafter-7") for line in following.stdout)
        assert run("down", "--service", name)[0] == 0
        assert following.wait(ENOUGH) == 0
        assert parent.wait(ENOUGH) == 0


PARENT = """
import signal, sys
from orchestrator.commands.up import stop_on_signals
from orchestrator.launch.local import LocalService
from tests.orchestrator.test_local_service import children, Path
service = LocalService(children(Path(sys.argv[1])), lambda change: None)
stop_on_signals(service)
assert service.wait_up(60)
print(service.name, flush=True)
service.wait()
"""


def _parent(tiny: Path) -> tuple["subprocess.Popen[str]", str]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tiny)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    return parent, parent.stdout.readline().strip()


@pytest.mark.parametrize("flags", [(), ("--now",), ("--all",)])
def test_down_leaves_nothing(tiny: Path, flags: tuple[str, ...]) -> None:
    parent, name = _parent(tiny)
    with parent:
        pids = [node.pid for node in running()[0].nodes]
        assert run("down", *flags) == (0, f"  {name} stopped\n")
        assert parent.wait(ENOUGH) == 0
    assert gone(pids)
    assert running() == []


def test_down_says_who_does_not_end_in_time(tiny: Path) -> None:
    parent, name = _parent(tiny)
    with parent:
        front = next(node for node in running()[0].nodes if node.role == "front")
        os.kill(front.pid, signal.SIGSTOP)
        code, text = run("down", "--wait", "0.2")
        assert (code, text) == (
            1,
            f"error: {name} has not ended in 0.2 s; --now ends it at once.\n",
        )
        assert run("down", "--now")[0] == 0
        parent.wait(ENOUGH)
    assert gone([front.pid])


def test_of_several_services_one_must_be_chosen(service: LocalService, tiny: Path) -> None:
    other = LocalService(children(tiny, drafters=0), News())
    assert other.wait_up(ENOUGH)
    code, text = run("status")
    assert code == 3
    assert service.name in text
    assert other.name in text
    assert json.loads(run("status", "--json", "--service", other.name)[1])["name"] == other.name
    other.stop()
    other.wait(ENOUGH)


def test_a_detached_start_that_fails_says_why(tiny: Path) -> None:
    flags = ["--target", str(tiny), "--config", "mine.yaml", "--detach", "--port", "0"]
    Path("mine.yaml").write_text("launcher: locla", encoding="utf-8")
    code, text = run("up", *flags)
    assert code == 2
    assert "There is no launcher 'locla'; did you mean 'local'?" in text
    assert running() == []


def test_numbers_are_read_from_the_page() -> None:
    page = """
# TYPE draftmesh_round_trip_seconds gauge
draftmesh_round_trip_seconds{node="verifier-0",peer="drafter-0",role="verifier"} 0.004
draftmesh_round_trip_seconds{node="verifier-1",peer="drafter-0",role="verifier"} 0.002
# TYPE draftmesh_method gauge
draftmesh_method{method="suffix",node="drafter-0",role="drafter"} 1.0
# TYPE draftmesh_drafted_tokens counter
draftmesh_drafted_tokens_total{drafter="drafter-0",node="verifier-0",role="verifier"} 8.0
draftmesh_drafted_tokens_total{drafter="drafter-0",node="verifier-1",role="verifier"} 2.0
# TYPE draftmesh_accepted_tokens counter
draftmesh_accepted_tokens_total{drafter="drafter-0",node="verifier-0",role="verifier"} 5.0
draftmesh_accepted_tokens_total{drafter="drafter-0",node="verifier-1",role="verifier"} 0.0
# TYPE draftmesh_device gauge
draftmesh_device{device="cpu",node="drafter-0",role="drafter"} 1.0
# TYPE draftmesh_report_age_seconds gauge
draftmesh_report_age_seconds{node="front-0",peer="verifier-0",role="front"} 0.75
# TYPE draftmesh_clock_skew_seconds gauge
draftmesh_clock_skew_seconds{node="front-0",peer="verifier-1",role="front"} -0.25
# TYPE draftmesh_clock_skew_doubt_seconds gauge
draftmesh_clock_skew_doubt_seconds{node="front-0",peer="verifier-1",role="front"} 0.002
"""
    told = numbers(page)
    assert told["drafter-0"] == Numbers("suffix", 0.002, 10, 5, device="cpu")
    assert told["drafter-0"].acceptance == 0.5
    assert told["verifier-0"] == Numbers("", None, 8, 5, heard=0.75)
    assert told["verifier-1"].acceptance == 0.0
    assert (told["verifier-1"].skew, told["verifier-1"].skew_doubt) == (-0.25, 0.002)
    assert Numbers().acceptance is None


def test_logs_come_in_the_order_of_time_and_a_traceback_stays_whole() -> None:
    first = ["2026-01-02 10:00:01,000 a", "Traceback", "  boom", "2026-01-02 10:00:04,000 d"]
    second = ["2026-01-02 10:00:02,000 b", "2026-01-02 10:00:03,000 c"]
    found = list(merged([entries("x", first), entries("y", second)]))
    assert [entry.node for entry in found] == ["x", "y", "y", "x"]
    assert found[0].text == "2026-01-02 10:00:01,000 a\nTraceback\n  boom"


def test_the_version_for_programs() -> None:
    told: dict[str, Any] = json.loads(run("version", "--output", "json")[1])
    assert told["protocol"] >= 1
    assert told["packages"]["torch"]


def test_the_doctor_finds_what_would_not_work(tiny: Path, service: LocalService) -> None:
    port = int(service.url.rpartition(":")[2])
    Path("draftmesh.yaml").write_text(
        f"port: {port}\nmesh: {{keys: nowhere}}\notlp_traces_endpoint: http://127.0.0.1:9\n"
        "front: {max_requests: 100000000}\n",
        encoding="utf-8",
    )
    code, text = run("doctor", "--target", str(tiny), "--output", "json")
    assert code == 1
    found = {finding["what"]: finding for finding in json.loads(text)}
    assert found["port"]["grade"] == "fail"
    assert found["keys"]["hint"] == "orchestrator keys new --folder nowhere"
    assert found["traces"]["grade"] == "warn"
    assert found["files"]["hint"].startswith("ulimit -n")
    assert found["target"]["grade"] == "ok"
    assert found["drafter-0"]["text"].startswith("ready")
    said = re.match(
        r"ready, clock ([+-]\d+\.\d) ms from this one, give or take (\d+\.\d)",
        found["front-0"]["text"],
    )
    assert said, "it has this machine's clock"
    assert abs(float(said[1])) <= float(said[2]) + 0.1
    assert all(finding["hint"] for finding in found.values() if finding["grade"] != "ok")
