"""Roles that nobody supervises: whoever started them may die, and they go on serving.

`orchestrator up` in the foreground is the other case: its children are `--supervised`, read the end of their pipe and
go with it (`test_service`). What tells the two apart is that flag alone.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest

from tests.e2e.service import ROOT, until
from tests.models import write_byte_llama

STARTER: Final = """
import subprocess, sys, json, time
for number, arguments in enumerate(json.loads(sys.argv[1])):
    out, log = (open(f"{sys.argv[2]}/{number}.{kind}", "wb") for kind in ("out", "log"))
    role = subprocess.Popen([sys.executable, "-m", *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=log)
    print(role.pid, flush=True)
time.sleep(3600)
"""


def said(folder: Path, number: int) -> dict[str, str]:
    """The newest status line of a role."""
    lines = (folder / f"{number}.out").read_text().splitlines()
    found: dict[str, str] = json.loads(lines[-1]) if lines else {}
    return found


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", list[int], Path]]:
    """A starter, and the pids of a drafter, a verifier and a front door that it started."""
    model = tmp_path / "model"
    model.mkdir()
    write_byte_llama(model)
    verifier, drafter = (f"ipc://{tmp_path}/{name}" for name in ("verifier", "drafter"))
    target = str(model)
    configs = {
        "drafter": {"node_id": "drafter-0", "bind": drafter, "method": "suffix", "target": target},
        "verifier": {"bind": verifier, "drafters": [drafter], "model": target, "kv_bytes": 1 << 24},
        "orchestrator.front": {"model": target, "name": "m", "port": 0, "verifiers": [verifier]},
    }
    commands = [[module, "--config", json.dumps(config)] for module, config in configs.items()]
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, json.dumps(commands), str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert starter.stdout is not None
    pids = [int(starter.stdout.readline()) for _ in commands]
    try:
        yield starter, pids, tmp_path
    finally:
        for pid in [starter.pid, *pids]:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        starter.wait(10)


@pytest.mark.full
def test_the_death_of_whoever_started_them_changes_nothing(
    roles: tuple["subprocess.Popen[bytes]", list[int], Path],
) -> None:
    starter, pids, folder = roles
    until(lambda: said(folder, 2).get("state") == "ready", "the front door is there")
    url = said(folder, 2)["http"]
    until(lambda: httpx.get(f"{url}/ready").json()["drafters"] == 1, "all are linked")
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait(10)
    asked = {"prompt": [7, 8, 9] * 5, "max_tokens": 30, "ignore_eos": True, "temperature": 0}
    answer = httpx.post(f"{url}/v1/completions", json=asked, timeout=60.0).json()
    assert answer["usage"]["completion_tokens"] == 30
    assert httpx.get(f"{url}/ready").json()["speculating"]
    assert all(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)
