"""Which services run: the files of the living are read, those of the dead are swept away."""

import subprocess
import sys
from pathlib import Path

import pytest

from protocol.rundir import (
    NodeState,
    ServiceState,
    StateFile,
    cache_folder,
    running,
    runtime_folder,
)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "draftmesh"


def state(name: str) -> ServiceState:
    node = NodeState("verifier-0", "verifier", 7, "tcp://127.0.0.1:1")
    return ServiceState(name, 1, "http://127.0.0.1:8000", "tiny", "/models/tiny", (node,))


def test_a_service_is_found_until_it_closes(folder: Path) -> None:
    file = StateFile("one")
    assert running() == []
    file.write(state("one"))
    assert running() == [state("one")]
    file.close()
    assert running() == []
    assert list(folder.iterdir()) == []


def test_the_dead_leave_no_service(folder: Path) -> None:
    code = (
        "import os; from tests.orchestrator.test_rundir import *;"
        "f = StateFile('dead'); f.write(state('dead')); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (folder / "dead.json").exists()
    assert running() == []
    assert list(folder.iterdir()) == []


def test_what_is_no_state_is_passed_over(folder: Path) -> None:
    file = StateFile("odd")
    (folder / "odd.json").write_text("{}", encoding="utf-8")
    assert running() == []
    file.close()


def test_nobody_else_may_look(folder: Path) -> None:
    assert runtime_folder() == folder
    assert folder.stat().st_mode & 0o077 == 0


def test_the_cache_is_where_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAFTMESH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/draftmesh")
    monkeypatch.setenv("DRAFTMESH_CACHE", "/mine")
    assert cache_folder() == Path("/mine")


def test_without_a_runtime_folder_the_cache_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("DRAFTMESH_CACHE", str(tmp_path / "cache"))
    assert runtime_folder() == tmp_path / "cache" / "run"
