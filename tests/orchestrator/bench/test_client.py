"""The client against a server that answers by a script."""

import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from orchestrator.bench.client import Answer, Asking, drive
from orchestrator.bench.errors import BenchError
from orchestrator.bench.prompts import Prompt
from tests.orchestrator.bench.fake_server import DONE, FakeServer, piece, sse, usage


def prompts(count: int) -> list[Prompt]:
    return [
        Prompt(id=f"p{number}", messages=[{"role": "user", "content": f"question {number}"}])
        for number in range(count)
    ]


def echo(body: Mapping[str, Any]) -> Iterable[bytes]:
    """Its prompt, a word at a time."""
    words = body["messages"][0]["content"].split()
    yield sse({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
    for word in words:
        yield piece(word + " ")
    yield usage(len(words))
    yield DONE


def ask(*parts: bytes, status: int = 200) -> Answer:
    with FakeServer(lambda _: parts, status) as server:
        [answer] = drive(server.url, prompts(1), 1, Asking())[0]
        return answer


def test_every_prompt_is_answered_once_and_in_order() -> None:
    with FakeServer(echo) as server:
        answers, seconds = drive(server.url, prompts(5), 2, Asking())
    assert [answer.prompt for answer in answers] == ["p0", "p1", "p2", "p3", "p4"]
    assert [answer.text for answer in answers] == [f"question {number} " for number in range(5)]
    assert [answer.tokens for answer in answers] == [2] * 5
    assert all(0 < answer.first <= answer.last <= seconds for answer in answers)


def test_so_many_are_asked_at_once_and_never_more() -> None:
    """Nobody is answered before three have asked; and while nobody is, a fourth one does not ask."""
    everybody, one_more = threading.Barrier(3), threading.Event()
    arrivals = itertools.count(1)

    def together(body: Mapping[str, Any]) -> Iterable[bytes]:
        if next(arrivals) > 3:
            one_more.set()
        else:
            everybody.wait(30)
            early = one_more.wait(0.5)
            everybody.wait(30)  # only now may one be answered, and another ask
            assert not early, "a fourth"
        yield from echo(body)

    with FakeServer(together) as server:
        drive(server.url, prompts(6), 3, Asking())
    assert server.most == 3


def test_what_is_asked() -> None:
    with FakeServer(echo) as server:
        long = prompts(1)[0].model_copy(update={"max_tokens": 99})
        drive(server.url, [long], 1, Asking(max_tokens=7))
        drive(server.url, prompts(2), 1, Asking(max_tokens=7, temperature=0.5, ignore_eos=True))
    plain, first, second = server.asked
    assert plain["max_tokens"] == 99  # the prompt's own wish
    assert plain["temperature"] == 0
    assert "seed" not in plain
    assert "ignore_eos" not in plain
    assert first["max_tokens"] == 7
    assert first["ignore_eos"] is True
    assert (first["seed"], second["seed"]) == (0, 1)  # runs repeat, prompts differ


def test_the_pace_is_that_of_the_tokens_after_the_first() -> None:
    answer = Answer(prompt="p", text="", tokens=5, first=1.0, last=3.0)
    assert answer.pace == 0.5
    assert Answer(prompt="p", text="", tokens=1, first=1.0, last=1.0).pace is None


def test_what_is_told_of_drafts_is_kept() -> None:
    counts = {"rounds": 3, "drafted": 8, "accepted": 5}
    end = sse(
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "draftmesh": counts}]}
    )
    answer = ask(piece("a"), end, usage(8), DONE)
    assert (answer.rounds, answer.drafted, answer.accepted) == (3, 8, 5)


def test_an_empty_answer_is_an_answer() -> None:
    answer = ask(usage(1), DONE)
    assert (answer.text, answer.tokens) == ("", 1)
    assert answer.first > 0


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ((piece("a"), sse({"error": {"message": "out of luck"}})), "out of luck"),
        ((piece("a"), usage(1)), "the connection ended before the answer did"),
        ((piece("a"), DONE), "did not say how many tokens"),
        ((b"data: {no json\n\n",), "p0"),
    ],
)
def test_an_answer_that_breaks_off_ends_the_measurement(
    parts: tuple[bytes, ...], fault: str
) -> None:
    with pytest.raises(BenchError, match=fault):
        ask(*parts)


def test_a_refusal_is_told_with_its_status() -> None:
    with pytest.raises(BenchError, match="status 503, busy"):
        ask(b"busy", status=503)


def test_after_a_failure_nothing_more_is_asked() -> None:
    with FakeServer(lambda _: (DONE,)) as server, pytest.raises(BenchError):
        drive(server.url, prompts(50), 1, Asking())
    assert len(server.asked) < 50
