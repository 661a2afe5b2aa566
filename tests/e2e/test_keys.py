"""A service whose processes know each other by key."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from protocol.keys import KeyRing
from tests.e2e.service import ROOT, Service, up
from tests.models import write_byte_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keyed")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    write_byte_llama(folder / "model")
    KeyRing(folder / "keys").new()
    flags = ("--drafters", "1", "--dtype", "float32", "--mesh-keys", str(folder / "keys"))
    with up(str(folder / "model"), folder, *flags) as running:
        yield running


def corpus_list(folder: Path, *flags: str) -> tuple[int, str]:
    """What an operator's tool says."""
    done = subprocess.run(
        [sys.executable, "-m", "drafter", "corpus", "list", *flags],
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_it_drafts_over_encrypted_links_and_its_owner_needs_no_flag(
    service: Service, folder: Path
) -> None:
    body = {"prompt": "one two one two one two one", "max_tokens": 40, "temperature": 0}
    drafted = 0
    while not drafted:  # until the link with the drafter is up
        answer = httpx.post(f"{service.url}/v1/completions", json=body, timeout=60).json()
        drafted = answer["choices"][0]["draftmesh"]["drafted"]
    code, said = corpus_list(folder)
    assert (code, "drafter-0" in said) == (0, True), said


def test_a_tool_with_another_key_is_not_let_in(service: Service, folder: Path) -> None:
    stranger = KeyRing(folder / "stranger")
    stranger.new()
    code, said = corpus_list(
        folder,
        *("--drafter", service.node("drafter-0").address),
        *("--mesh-keys", str(stranger.folder), "--patience", "1"),
    )
    assert code == 1
    assert "no answer within 1 s" in said
    assert "keys that do not fit" in said
