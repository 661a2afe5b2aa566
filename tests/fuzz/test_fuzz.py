"""Whatever a stranger says on its own links, nothing raises, nothing grows, and honest peers get their answers."""

import psutil
import pytest

from tests.fuzz.session import FLAT, Session

MILLION = 1_000_000


def fed(inputs: int, seed: int) -> Session:
    session = Session(seed)
    for _ in range(inputs):
        session.feed()
    return session


@pytest.mark.parametrize("seed", [1, 2])
def test_thousands_of_inputs(seed: int) -> None:
    assert fed(5_000, seed).wrong() == []


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_million_inputs_and_memory_is_flat() -> None:
    session, process = Session(3), psutil.Process()
    for _ in range(MILLION // 10):
        session.feed()
    before = process.memory_info().rss
    for _ in range(MILLION - MILLION // 10):
        session.feed()
    assert session.wrong() == []
    assert process.memory_info().rss - before < FLAT
