"""What clients feel of long prompts: told by a service whose times are made up, and by one that fails."""

from collections.abc import Iterator
from itertools import count

import pytest

from orchestrator.bench import split
from orchestrator.bench.errors import BenchError
from orchestrator.bench.split import STREAMED, Load, feel

LOAD = Load(streams=2, longs=3, tokens=8)
NOWHERE = "http://127.0.0.1:9"


def test_the_first_token_of_every_long_prompt_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()

    def pieces(_client: object, _prompt: list[int], tokens: int) -> Iterator[float]:
        return (float(next(clock)) for _ in range(min(tokens, 4)))

    monkeypatch.setattr(split, "_pieces", pieces)
    monkeypatch.setattr(split, "perf_counter", lambda: float(next(clock)))
    felt = feel(NOWHERE, LOAD)
    assert len(felt.first_long) == LOAD.longs
    assert all(seconds >= 1 for seconds in felt.first_long)


def test_a_stream_that_fails_is_heard_of_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    longs: list[int] = []

    def pieces(_client: object, prompt: list[int], tokens: int) -> Iterator[float]:
        if tokens == STREAMED:
            raise BenchError("the service answered 500")
        longs.append(len(prompt))
        return iter([0.0])

    monkeypatch.setattr(split, "_pieces", pieces)
    with pytest.raises(BenchError, match="500"):
        feel(NOWHERE, LOAD)
    assert longs == [LOAD.tokens], "only the first one, which is not measured, was asked"
