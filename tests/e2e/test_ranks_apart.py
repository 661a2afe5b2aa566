"""Ranks that are started by themselves, as on machines of their own: they meet, end together, and notice a loss."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.e2e.prompts import prompt, wanted
from tests.e2e.service import ROOT, until
from tests.e2e.test_prefill import ask
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
PATIENCE: Final = 120


class Roles:
    """Processes by the name of their module, each with a file of what it said and one of its log."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack

    def start(self, module: str, **config: Any) -> "subprocess.Popen[bytes]":
        out, log = ((self.folder / f"{module}.{kind}").open("wb") for kind in ("out", "log"))
        role = subprocess.Popen(
            [sys.executable, "-m", module, "--config", json.dumps(config)],
            stdin=subprocess.DEVNULL,
            stdout=self._stack.enter_context(out),
            stderr=self._stack.enter_context(log),
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        self._stack.callback(role.wait)
        self._stack.callback(role.kill)
        return role

    def log(self, module: str) -> str:
        return (self.folder / f"{module}.log").read_text()

    def said(self, module: str) -> dict[str, str]:
        """The newest status line of a role."""
        lines = (self.folder / f"{module}.out").read_text().splitlines()
        found: dict[str, str] = json.loads(lines[-1]) if lines else {}
        return found


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[Roles]:
    with ExitStack() as stack:
        yield Roles(tmp_path, stack)


def test_they_meet_end_together_and_notice_a_loss(roles: Roles, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    model = write_byte_llama(folder)
    mesh = f"ipc://{tmp_path}/verifier"
    port = _free_port()
    shared: dict[str, Any] = {"model": str(folder), "dtype": "float32", "kv_bytes": 1 << 22}
    shared |= {"tensor_parallel": 2, "ranks": "apart", "rendezvous": f"127.0.0.1:{port}"}
    shared |= {"rank_seconds": 15}

    def both() -> "list[subprocess.Popen[bytes]]":
        follower = roles.start("verifier.follower", rank=1, **shared)
        started = [follower, roles.start("verifier", bind=mesh, threads=1, **shared)]
        # Only then the door: it might still know the verifier before this one.
        until(lambda: roles.said("verifier").get("state") == "ready", "the verifier is there")
        until(lambda: httpx.get(f"{url}/ready").status_code == httpx.codes.OK, "the door knows it")
        return started

    roles.start("orchestrator.front", model=str(folder), name="m", port=0, verifiers=[mesh])
    until(lambda: roles.said("orchestrator.front").get("state") == "ready", "the door is there")
    url = roles.said("orchestrator.front")["http"]
    asked = prompt(30, 3)
    follower, verifier = both()
    assert asyncio.run(ask(url, [asked])) == [wanted(model, asked)]

    follower.send_signal(signal.SIGTERM)  # as a node that ends all of its pods does
    assert asyncio.run(ask(url, [asked])) == [wanted(model, asked)]
    verifier.send_signal(signal.SIGTERM)
    assert [verifier.wait(PATIENCE), follower.wait(PATIENCE)] == [0, 0]

    follower, verifier = both()
    verifier.kill()
    assert follower.wait(PATIENCE) == 1
    assert "rank 0 is gone" in roles.log("verifier.follower")

    for loss in (signal.SIGKILL, signal.SIGSTOP):
        follower, verifier = both()
        follower.send_signal(loss)
        with pytest.raises(httpx.HTTPStatusError):
            asyncio.run(ask(url, [asked]))
        assert verifier.wait(PATIENCE) == 1
        assert "a forward over 2 ranks failed" in roles.log("verifier")
        follower.kill()


def test_ranks_that_have_loaded_something_else_are_named(roles: Roles, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        write_byte_llama(folder, seed=seed)
    shared: dict[str, Any] = {"tensor_parallel": 2, "ranks": "apart", "kv_bytes": 1 << 22}
    shared |= {"rendezvous": f"127.0.0.1:{_free_port()}"}
    roles.start("verifier.follower", rank=1, model=str(folders[1]), **shared)
    verifier = roles.start("verifier", model=str(folders[0]), **shared)
    assert verifier.wait(PATIENCE) == 1
    assert "rank 1 has weights" in roles.log("verifier")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
