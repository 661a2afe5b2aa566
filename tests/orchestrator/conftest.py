"""What all HTTP tests share."""

from pathlib import Path

import pytest

from tests.models import write_byte_llama
from tests.orchestrator.http_app import FakeDoor, Http


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose token of byte b is the id of that byte, with a chat template."""
    folder = tmp_path_factory.mktemp("tiny")
    write_byte_llama(folder)
    return folder


@pytest.fixture
def http(tiny: Path) -> Http:
    """An app whose every answer repeats the prompt."""
    return Http(tiny, FakeDoor())
