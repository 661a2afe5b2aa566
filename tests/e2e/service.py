"""A service as a user starts it: `orchestrator up` in a process of its own, found through its state file."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec
import psutil

from protocol.rundir import NodeState, ServiceState

ROOT: Final = Path(__file__).parents[2]
DEADLINE: Final = 120.0
"""Seconds for a start on a machine that does other things too."""


def until(true: Callable[[], bool], what: str, seconds: float = DEADLINE) -> None:
    """Look again until it is true; there is nothing to wait on for what another process does to its files."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if true():
            return
        pause.wait(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class Service:
    """A running `orchestrator up`."""

    def __init__(self, process: "subprocess.Popen[bytes]", runtime: Path, key: str = "") -> None:
        self.process = process
        self.key = key
        self._runtime = runtime

    @property
    def state(self) -> ServiceState | None:
        """What the state file says now."""
        for path in (self._runtime / "draftmesh").glob("*.json"):
            return msgspec.json.decode(path.read_bytes(), type=ServiceState)
        return None

    @property
    def url(self) -> str:
        assert self.state
        return self.state.url

    def node(self, name: str) -> NodeState:
        assert self.state
        return next(node for node in self.state.nodes if node.name == name)

    @property
    def pids(self) -> dict[str, int]:
        assert self.state
        return {node.name: node.pid for node in self.state.nodes}

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5.0).status_code == httpx.codes.OK
        except (AssertionError, httpx.HTTPError, httpx.InvalidURL):
            return False

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until the process is gone."""
        pid = self.node(name).pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not psutil.pid_exists(pid) or _dead(pid), f"{name} is gone")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


def _dead(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


RUNNING: Final[list[Service]] = []


@contextmanager
def up(target: str, folder: Path, *flags: str) -> Iterator[Service]:
    """A service of `target` with two drafters on a port that the system picks; nothing of it is left afterwards."""
    environment = os.environ | {
        "DRAFTMESH_CACHE": os.environ.get("DRAFTMESH_CACHE", str(folder / "cache")),
        "XDG_RUNTIME_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    arguments = ["up", "--target", target, "--port", "0", *flags]
    log = (folder / "up.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *arguments],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    key = flags[flags.index("--api-key") + 1] if "--api-key" in flags else ""
    service = Service(process, folder, key)
    RUNNING.append(service)
    try:
        until(lambda: service.ready() or process.poll() is not None, "the service is ready")
        assert process.poll() is None, (folder / "up.log").read_text()
        yield service
    finally:
        RUNNING.remove(service)
        log.close()
        if process.poll() is None:
            service.interrupt()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
