"""The default configuration as the README tells it: the default model, two drafters, documents, `generate`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import openai
import pytest

from tests.e2e.service import ROOT, Service, until, up

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

SENTENCE: Final = "The quick brown fox jumps over the lazy dog."
COPIED: Final = "The quick brown fox jumps over"
"""What so small a model keeps of it for certain: in bfloat16 it may drop the next word."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("default")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    with up("smollm2-135m", folder, "--drafters", "2") as running:
        yield running


def run(service_folder: Path, module: str, *arguments: str) -> str:
    """A command in another terminal of the same user."""
    environment = os.environ | {
        "DRAFTMESH_CACHE": os.environ.get("DRAFTMESH_CACHE", str(service_folder / "cache")),
        "XDG_RUNTIME_DIR": str(service_folder),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment,
        cwd=service_folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr  # an answer goes to one, what is said about it to the other


def ask(service: Service, text: str) -> openai.types.chat.ChatCompletion:
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)
    return client.chat.completions.create(
        model="smollm2-135m",
        messages=[{"role": "user", "content": text}],
        temperature=0,
        max_tokens=60,
    )


def test_it_copies_with_drafts(service: Service) -> None:
    answer = ask(service, f"Repeat this sentence three times: {SENTENCE}").choices[0]
    assert COPIED in (answer.message.content or "")
    assert answer.model_extra
    assert answer.model_extra["draftmesh"]["accepted"] > 0


def test_generate_answers_and_counts(service: Service, folder: Path) -> None:
    assert service.ready()
    said = run(folder, "orchestrator", "generate", f"Repeat exactly: {SENTENCE}")
    assert COPIED in said
    assert "emitted per round" in said


def test_documents_come_and_go(service: Service, folder: Path) -> None:
    assert service.ready()
    text = folder / "handbook.txt"
    text.write_text("Wash the filter every Monday and never use hot water for it.\n" * 20)
    run(folder, "drafter", "corpus", "add", "handbook", str(text))
    until(lambda: "handbook" in run(folder, "drafter", "corpus", "list"), "the corpus is there", 30)
    run(folder, "drafter", "corpus", "remove", "handbook")
    assert "handbook" not in run(folder, "drafter", "corpus", "list")
