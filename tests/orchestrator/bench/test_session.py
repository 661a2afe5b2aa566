"""Who is measured when."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from orchestrator.bench.client import Asking
from orchestrator.bench.errors import BenchError
from orchestrator.bench.prompts import WARM_UP, Prompt
from orchestrator.bench.results import Label, Run
from orchestrator.bench.session import Plan, measure, turns
from tests.orchestrator.bench.fake_server import DONE, FakeServer, piece, usage

PROMPTS = [
    Prompt(id=f"p{number}", messages=[{"role": "user", "content": f"question {number}"}])
    for number in range(4)
]
PLAN = Plan(prompts=PROMPTS, asking=Asking(), concurrencies=(1, 2), runs=2)


class Fake:
    """A system that notes what happens to it in a diary that all of them share."""

    def __init__(self, name: str, diary: list[str], *, broken: bool = False) -> None:
        self.label = Label(mode=name)
        self._diary = diary
        self._parts = (piece("x"), DONE) if broken else (piece("x"), usage(3), DONE)
        self._drafted = 0

    @contextmanager
    def fresh(self) -> Iterator[str]:
        with FakeServer(self._answer) as server:
            yield server.url
        warm = [one.messages for one in WARM_UP]
        measured = [body for body in server.asked if body["messages"] not in warm]
        self._diary.append(f"{self.label.mode}: {len(measured)} asked")

    def _answer(self, _body: Mapping[str, Any]) -> tuple[bytes, ...]:
        self._drafted += 1
        return self._parts

    def drafts(self) -> tuple[int, int]:
        return self._drafted, 0

    def work(self, url: str) -> None:
        """It does not say."""

    def close(self) -> None:
        self._diary.append(f"{self.label.mode} closed")


def test_each_system_is_first_equally_often() -> None:
    orders = [tuple(order) for _, _, order in turns(3, (1, 8), 3)]
    assert len(orders) == 6
    assert set(Counter(order[0] for order in orders).values()) == {2}
    assert all(sorted(order) == [0, 1, 2] for order in orders)


def test_pairs_take_turns_in_who_is_first() -> None:
    assert [(number, order) for number, _, order in turns(2, (1,), 3)] == [
        (0, [0, 1]),
        (1, [1, 0]),
        (2, [0, 1]),
    ]


def test_every_run_has_a_fresh_system_and_every_prompt_once() -> None:
    diary: list[str] = []
    heard: list[Run] = []
    runs = measure(PLAN, [Fake("a", diary), Fake("b", diary)], heard.append)
    assert runs == heard
    assert Counter(diary[:-2]) == {"a: 4 asked": 4, "b: 4 asked": 4}
    assert set(diary[-2:]) == {"a closed", "b closed"}
    assert [(run.label.mode, run.concurrency, run.number) for run in runs] == [
        ("a", 1, 0), ("b", 1, 0), ("b", 2, 0), ("a", 2, 0), ("b", 1, 1), ("a", 1, 1), ("a", 2, 1), ("b", 2, 1),
    ]  # fmt: skip


def test_warming_up_is_not_measured() -> None:
    [first, *_] = measure(PLAN, [Fake("a", [])], lambda _: None)
    assert [answer.prompt for answer in first.answers] == [prompt.id for prompt in PROMPTS]
    assert first.drafts == (4, 0)


def test_a_failure_leaves_nothing_running() -> None:
    diary: list[str] = []
    with pytest.raises(BenchError):
        measure(PLAN, [Fake("a", diary, broken=True), Fake("b", diary)], lambda _: None)
    assert diary[-2:] == ["b closed", "a closed"]
