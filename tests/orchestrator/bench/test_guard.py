"""A program of others is stopped, goes on, and never outlives us, nor does what it started."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest

from orchestrator.bench.errors import BenchError
from orchestrator.bench.servers import Server
from orchestrator.python import command, environment

FAMILY = (
    "import subprocess, sys; command = [sys.executable, '-c', 'import signal; signal.pause()'];"
    "child = subprocess.Popen(command); print(child.pid, flush=True); child.wait()"
)
"""A program with a child that waits for nothing of its parent's."""


@pytest.fixture
def guard() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        command("orchestrator.bench.guard", sys.executable, "-c", FAMILY),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()  # a guard that is killed could not end what it guards
        process.wait(30)


def family(guard: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The program and what it has started."""
    assert guard.stdout is not None
    child = psutil.Process(int(guard.stdout.readline()))
    program = child.parent()
    assert program is not None
    return [program, child]


def until(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(600):
        if true():
            return
        pause.wait(0.05)
    raise AssertionError


def order(guard: "subprocess.Popen[str]", what: str) -> None:
    assert guard.stdin is not None
    guard.stdin.write(what + "\n")
    guard.stdin.flush()


def stopped(processes: list[psutil.Process]) -> bool:
    return all(each.status() == psutil.STATUS_STOPPED for each in processes)


def gone(processes: list[psutil.Process]) -> bool:
    return not any(
        each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes
    )


def test_a_program_is_stopped_with_all_it_started_and_goes_on(
    guard: "subprocess.Popen[str]",
) -> None:
    processes = family(guard)
    order(guard, "stop")
    until(lambda: stopped(processes))
    order(guard, "go")
    until(lambda: not any(each.status() == psutil.STATUS_STOPPED for each in processes))


def test_the_end_of_our_words_ends_it_even_where_it_is_stopped(
    guard: "subprocess.Popen[str]",
) -> None:
    processes = family(guard)
    order(guard, "stop")
    until(lambda: stopped(processes))
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait(30)
    until(lambda: gone(processes))


def test_a_program_that_dies_takes_what_it_started_along(guard: "subprocess.Popen[str]") -> None:
    processes = family(guard)
    processes[0].send_signal(signal.SIGKILL)
    assert guard.wait(30) == 1
    until(lambda: gone(processes))


def test_a_server_that_does_not_start_says_why() -> None:
    server = Server([sys.executable, "-c", "raise SystemExit('no model here')"], {}, 9)
    with pytest.raises(BenchError, match=r"it ended with code 1:\n  no model here"):
        server.wait_up()
    server.close()
