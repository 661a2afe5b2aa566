"""A service that is submitted to a Ray cluster as a job, through the cluster's own web interface."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.deploy.tools import beside
from tests.e2e.ray_nodes import QUIET, STORE, roles
from tests.e2e.service import ROOT, Service, until
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

OVER: Final = {"FAILED", "STOPPED", "SUCCEEDED"}
RAY: Final = ("-m", "ray.scripts.scripts")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Head:
    """A cluster of one node with the web interface that takes jobs, which needs `ray[default]`."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.python = beside("ray[default]")
        self.folder = folder
        self.urls = {
            name: f"http://127.0.0.1:{port}"
            for name, port in zip(("web", "agent"), ports[1:], strict=False)
        }
        commands = folder / "bin"
        commands.mkdir()
        ours = commands / "orchestrator"  # as pip makes it
        ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator "$@"\n')
        ours.chmod(0o755)
        self.environment = {
            **os.environ,
            **QUIET,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(folder),
            "RAY_JOB_STOP_WAIT_TIME_S": "60",
        }
        self.environment.pop("RAY_ADDRESS", None)
        arguments = [
            *("start", "--head", "--block", "--num-cpus=4", f"--object-store-memory={STORE}"),
            *("--node-ip-address=127.0.0.1", f"--port={ports[0]}"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={ports[1]}"),
            *(f"--dashboard-agent-listen-port={ports[2]}", f"--ray-client-server-port={ports[3]}"),
        ]
        self._log = (folder / "head.log").open("wb")
        self.process = subprocess.Popen(
            [self.python, *RAY, *arguments],
            env=self.environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        until(self._answers, "the cluster takes jobs")

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "head.log").read_text()
        try:
            return httpx.get(f"{self.urls['web']}/api/jobs/", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def job(self, *words: str) -> str:
        """`ray job ...`; what it prints."""
        done = subprocess.run(
            [self.python, *RAY, "job", words[0], "--address", self.urls["web"], *words[1:]],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self._log.close()


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    made = Head(tmp_path, free_ports(4))
    try:
        yield made
    finally:
        made.close()


def test_a_service_is_a_job(head: Head, tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_byte_llama(model)
    up = ("orchestrator", "up", "--launcher", "ray", "--foreground", "--target", str(model))
    sizes = ("--drafters", "1", "--dtype", "float32", "--port", "0")
    head.job("submit", "--no-wait", "--submission-id", "dm", "--", *up, *sizes)
    service = Service(head.process, tmp_path)
    until(lambda: service.ready() or status(head) in OVER, "it serves")
    assert status(head) == "RUNNING", head.job("logs", "dm")
    assert roles().keys() == {"verifier-0", "drafter-0"}
    body = {"prompt": "one two", "max_tokens": 5, "temperature": 0}
    answer = httpx.post(f"{service.url}/v1/completions", json=body, timeout=60).json()
    assert answer["usage"]["completion_tokens"] > 0
    assert "draftmesh is up" in head.job("logs", "dm")

    for port, path in (("web", "gcs_healthz"), ("agent", "local_raylet_healthz")):
        assert httpx.get(f"{head.urls[port]}/api/{path}", timeout=30).text == "success"

    head.job("stop", "dm")
    assert status(head) == "STOPPED"
    until(lambda: not roles() and service.state is None, "nothing is left of it")
    assert "stopped" in head.job("logs", "dm"), "it drained, and said so"


def status(head: Head) -> str:
    told = httpx.get(f"{head.urls['web']}/api/jobs/dm", timeout=30)
    return str(told.json()["status"]) if told.is_success else json.dumps(told.text)
