"""What holds for every test: one thread, examples that are the same in every run, and numbers that can be."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import identities

# The same examples each time, and no limit on the seconds of one: other processes may have the cores.
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Two processes with spinning barriers on two cores are several times slower."""
    import torch  # noqa: PLC0415  # only where tests run, not where they are collected

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _numbers_can_be() -> Iterator[None]:
    """After every test, for every verifier that took part in it."""
    yield
    identities.check_watched()
