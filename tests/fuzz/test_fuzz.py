"""Whatever a stranger says on its own links, nothing raises, nothing grows, and honest peers get their answers."""

import psutil
import pytest

from tests.fuzz.session import NEWS_EVERY, Session

MILLION = 1_000_000


def fed(inputs: int, seed: int) -> Session:
    session = Session(seed)
    for _ in range(inputs):
        session.feed()
    return session


def check(session: Session) -> None:
    assert 0.2 < session.read / session.inputs < 0.9  # neither noise nor manners alone
    assert session.honest >= session.inputs // NEWS_EVERY - 2
    held = session.held()
    assert held["mirrors"] <= 8
    assert held["choices"] <= 12
    assert held["lanes"] == 6
    assert held["counters"] < 40


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_inputs(seed: int) -> None:
    check(fed(5_000, seed))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_million_inputs_and_memory_is_flat() -> None:
    session, process = Session(3), psutil.Process()
    for _ in range(MILLION // 10):
        session.feed()
    before = process.memory_info().rss
    for _ in range(MILLION - MILLION // 10):
        session.feed()
    check(session)
    assert process.memory_info().rss - before < 16 << 20
