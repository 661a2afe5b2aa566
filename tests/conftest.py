"""One thread a test process: two processes with spinning barriers on two cores are several times slower."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import torch  # noqa: PLC0415  # only where tests run, not where they are collected

    torch.set_num_threads(1)
