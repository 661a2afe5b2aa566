"""The story of a crowd, told to a server whose figures are known."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any, Final

import httpx
import pytest

from orchestrator.bench import burst
from orchestrator.bench.burst import CHANGES, Story
from orchestrator.bench.client import Asking, pieces
from orchestrator.bench.errors import BenchError
from orchestrator.bench.prompts import Prompt
from tests.orchestrator.bench.fake_server import DONE, FakeServer, sse

LONG: Final = 1000
STORY: Final = Story(
    prompts=[
        Prompt(id=f"p{number}", messages=[{"role": "user", "content": f"question {number}"}])
        for number in range(8)
    ],
    crowd=3,
    seconds=0.05,
    calm=4.0,
    long=Asking(max_tokens=LONG),
    short=Asking(max_tokens=2),
)


class Service:
    """Emits three tokens a round to those who stream, but one while others ask, and counts that as two changes."""

    def __init__(self) -> None:
        self.asked: list[tuple[bool, str]] = []  # is it a long one, and what
        self._moved = threading.Condition()
        self._rounds = 0
        self._others = 0

    def pieces(self, _client: object, body: Mapping[str, Any]) -> Iterator[tuple[float, int]]:
        long = body["max_tokens"] == LONG
        with self._moved:
            self.asked.append((long, body["messages"][0]["content"]))
            self._others += not long
        while long:
            yield perf_counter(), 1 if self._others else 3
            with self._moved:  # it was heard
                self._rounds += 1
                self._moved.notify_all()
        yield perf_counter(), 2
        self.pause(0.0)
        with self._moved:
            self._others -= 1

    def pause(self, _seconds: float) -> None:
        """Until some rounds have been told."""
        with self._moved:
            until = self._rounds + 40
            assert self._moved.wait_for(lambda: self._rounds >= until, 20)

    def metrics(self) -> str:
        count = 2 * (not all(long for long, _ in self.asked))
        return f'# TYPE {CHANGES} counter\n{CHANGES}{{verifier="v"}} {count}\n'


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()
    monkeypatch.setattr(burst, "pieces", made.pieces)
    return made


def told(service: Service) -> list[burst.Part]:
    with FakeServer(lambda _: (), metrics=service.metrics) as server:
        return burst.tell(server.url, "ours", STORY, service.pause)


def test_what_the_two_get_before_during_and_after_a_crowd(service: Service) -> None:
    before, crowded, after = told(service)
    assert (before.emitted, after.emitted) == (3.0, 3.0)
    assert 1.0 <= crowded.emitted < 3.0
    assert (before.changes, after.changes) == (0.0, 0.0)
    assert crowded.changes > 0
    assert crowded.answers >= STORY.crowd
    assert before.tokens_per_s > 0
    assert not before.answers
    [(_, table)] = burst.tables(burst.Figures(parts=(before, crowded, after)))
    assert table.row_count == 3


def test_everybody_asks_something_else(service: Service) -> None:
    """Half of the prompts are for the two, the others for the crowd: no prompt of one helps the other."""
    told(service)
    assert sum(long for long, _ in service.asked) == 2
    longs = {text for long, text in service.asked if long}
    assert longs.isdisjoint(text for long, text in service.asked if not long)


def test_a_service_that_fails_ends_the_story() -> None:
    with FakeServer(lambda _: (), status=500) as server, pytest.raises(BenchError, match="500"):
        burst.tell(server.url, "ours", STORY)


def test_a_piece_tells_how_many_tokens_it_has() -> None:
    """Of a completion and of a chat; what carries no tokens is no piece."""

    def script(body: Mapping[str, Any]) -> Iterable[bytes]:
        assert body["stream"]
        assert body["return_token_ids"]
        yield sse({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
        yield sse({"choices": [{"index": 0, "text": "ab", "token_ids": [5, 6]}]})
        yield sse({"choices": [{"index": 0, "text": "c", "token_ids": [7]}]})
        yield DONE

    with FakeServer(script) as server, httpx.Client(base_url=server.url) as client:
        assert [tokens for _, tokens in pieces(client, {"max_tokens": 3})] == [2, 1]
