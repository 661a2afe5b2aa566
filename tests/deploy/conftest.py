"""Values files as parameters."""

from pathlib import Path

import pytest

from tests.deploy.chart import FILES, Manifest, rendered


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def values(request: pytest.FixtureRequest) -> Path:
    path = request.param
    assert isinstance(path, Path)
    return path


@pytest.fixture
def found(values: Path) -> tuple[Manifest, ...]:
    return rendered(values)
