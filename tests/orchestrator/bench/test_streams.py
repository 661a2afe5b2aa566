"""Streams begin together, and what keeps one from it is heard at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.bench import streams
from orchestrator.bench.errors import BenchError
from orchestrator.bench.streams import Streams, begin


def silent(over: threading.Event) -> Streams:
    def run(_piece: Callable[[], None]) -> None:
        over.wait()

    return run


def test_all_have_had_a_piece() -> None:
    came: list[int] = []

    def work(number: int) -> Streams:
        def run(piece: Callable[[], None]) -> None:
            for _ in range(3):
                came.append(number)
                piece()

        return run

    with ThreadPoolExecutor(2) as threads:
        running = begin(threads, [work(0), work(1)])
        assert set(came) == {0, 1}
        assert [each.result() for each in running] == [None, None]


def test_one_that_fails_is_heard_while_another_is_silent() -> None:
    over = threading.Event()

    def fails(_piece: Callable[[], None]) -> None:
        raise BenchError("the service answered 500")

    with ThreadPoolExecutor(2) as threads:
        with pytest.raises(BenchError, match="500"):
            begin(threads, [silent(over), fails])
        assert not over.is_set()
        over.set()


def test_silence_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENCE", 0.01)
    over = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(BenchError, match="did not begin to stream"):
            begin(threads, [silent(over)])
        over.set()
