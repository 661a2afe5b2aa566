"""Real processes under the local launcher: a front door and drafters, which need no model to begin."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from drafter.config import DrafterConfig
from orchestrator.front.config import FrontConfig
from orchestrator.launch.events import Changed
from orchestrator.launch.local import LocalService
from orchestrator.launch.plan import Child
from protocol.rundir import NodeState, running

ENOUGH = 60.0


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("DRAFTMESH_CACHE", str(tmp_path / "cache"))


class News:
    """What a service says of its children, to be waited for."""

    def __init__(self) -> None:
        self._seen: list[Changed] = []
        self._came = threading.Condition()

    def __call__(self, change: Changed) -> None:
        with self._came:
            self._seen.append(change)
            self._came.notify_all()

    def wait(self, name: str, state: str, times: int = 1) -> None:
        def enough() -> bool:
            return sum((c.name, c.state) == (name, state) for c in self._seen) >= times

        with self._came:
            assert self._came.wait_for(enough, ENOUGH), self._seen


def children(folder: Path, drafters: int = 1, method: str = "ngram") -> list[Child]:
    front = FrontConfig(model=folder, name="tiny", port=0)
    parts = [DrafterConfig(node_id=f"drafter-{n}", method=method) for n in range(drafters)]
    return [Child(front, "front"), *(Child(part, "drafter") for part in parts)]


def nodes() -> dict[str, NodeState]:
    (service,) = running()
    return {node.name: node for node in service.nodes}


def gone(pids: list[int]) -> bool:
    """Whether these processes end in time."""
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    return not psutil.wait_procs(processes, ENOUGH)[1]


def test_a_service_lives_restarts_what_dies_and_ends(tiny: Path) -> None:
    news = News()
    service = LocalService(children(tiny), news)
    assert service.wait_up(ENOUGH)
    assert httpx.get(f"{service.url}/health").status_code == 200
    before = nodes()
    assert before["drafter-0"].address.startswith("tcp://127.0.0.1:")

    os.kill(before["drafter-0"].pid, signal.SIGKILL)
    news.wait("drafter-0", "ready", times=2)
    after = nodes()
    assert after["drafter-0"].address == before["drafter-0"].address
    assert after["drafter-0"].pid != before["drafter-0"].pid

    service.stop()
    over = service.wait(ENOUGH)
    assert over is not None
    assert (over.code, over.text) == (0, "")
    assert running() == []
    assert not service.logs.exists()
    assert gone([node.pid for node in after.values()])
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/health")


def test_a_second_stop_ends_a_child_that_is_frozen(tiny: Path) -> None:
    service = LocalService(children(tiny), News())
    assert service.wait_up(ENOUGH)
    pid = nodes()["front-0"].pid
    os.kill(pid, signal.SIGSTOP)
    service.stop()
    assert service.wait(0.2) is None
    service.stop()
    over = service.wait(ENOUGH)
    assert over is not None
    assert over.code == 0
    assert gone([pid])


def test_a_port_that_is_taken_ends_the_service_with_a_sentence(tiny: Path) -> None:
    first = LocalService(children(tiny, drafters=0), News())
    assert first.wait_up(ENOUGH)
    port = int(first.url.rpartition(":")[2])
    front = FrontConfig(model=tiny, name="tiny", port=port)
    second = LocalService([Child(front, "front")], News())
    over = second.wait(ENOUGH)
    assert over is not None
    assert over.code == 1
    assert over.text == (
        f"front-0 could not start: cannot listen on 127.0.0.1 port {port}: Address already in use."
    )
    first.stop()
    first.wait(ENOUGH)


def test_a_child_that_dies_without_a_word_leaves_the_end_of_its_log(tiny: Path) -> None:
    broken = Child(FrontConfig(model=tiny, name="tiny"), "front", {"PYTHONHOME": "/nowhere"})
    service = LocalService([broken], News())
    over = service.wait(ENOUGH)
    assert over is not None
    assert over.text.startswith("front-0 could not start: ended with code 1.\nThe end of ")
    assert service.logs.exists()


def test_a_drafter_that_cannot_start_does_not_hold_up_the_service(tiny: Path) -> None:
    news = News()
    service = LocalService(children(tiny, method="none such"), news)
    assert service.wait_up(ENOUGH)
    news.wait("drafter-0", "waiting")
    service.stop()
    service.wait(ENOUGH)


PARENT = """
import sys
from orchestrator.launch.local import LocalService
from protocol.rundir import running
from tests.orchestrator.test_local_service import children, Path
service = LocalService(children(Path(sys.argv[1])), lambda change: None)
assert service.wait_up(60)
print(*(node.pid for node in running()[0].nodes), flush=True)
service.wait()
"""


def _parent(tiny: Path) -> tuple["subprocess.Popen[str]", list[int]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tiny)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, [int(pid) for pid in parent.stdout.readline().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_parent_that_dies_takes_its_children_along(tiny: Path, number: signal.Signals) -> None:
    parent, pids = _parent(tiny)
    with parent:
        assert len(pids) == 2
        parent.send_signal(number)
        parent.wait(ENOUGH)
    assert gone(pids)
    assert running() == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not offer it")
def test_even_children_that_are_frozen(tiny: Path) -> None:
    parent, pids = _parent(tiny)
    with parent:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait(ENOUGH)
    assert gone(pids)
