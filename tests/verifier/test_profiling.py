"""Measuring steps, and keeping what was learned where the next service finds it."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from engine.attention import Reached
from engine.runner import Forward, Row
from tests.verifier.planners.rig import outcome
from verifier.config import PlannerConfig, SchedulerConfig, VerifierConfig
from verifier.costs import CostTable
from verifier.keeping import ENOUGH, Keeper
from verifier.measuring import measure
from verifier.planners.budget import Budget
from verifier.planners.fixed import Fixed
from verifier.profiling import place, read, write

CONFIG = VerifierConfig(
    model=Path(), planner=PlannerConfig(draft_length=3), scheduler=SchedulerConfig(max_running=8)
)


class Engine:
    """A step takes 10 ms, 1 ms a token, and 2 ms a row; now and then something disturbs it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rows: list[Sequence[Row]] = []
        self._disturbed = itertools.cycle([0.0, 0.0, 0.5])

    def forward(self, rows: Sequence[Row], *, reached: Reached | None = None) -> Forward:  # noqa: ARG002
        self.rows.append(rows)
        tokens = sum(len(row.tokens) for row in rows)
        self.now += 0.01 + 0.001 * tokens + 0.002 * len(rows) + next(self._disturbed)
        return Forward(torch.zeros(0), {})


def test_what_a_step_costs_is_found_through_disturbances() -> None:
    engine = Engine()
    table = measure(engine, CONFIG, 1000, lambda: engine.now)
    assert table.tokens[-1] == 8 * 4  # all that may run, each with its window
    assert table.row == pytest.approx(0.002)
    for rows, tokens in ((1, 1), (4, 16), (8, 32)):
        assert table.cost(rows, tokens) == pytest.approx(
            0.01 + 0.001 * tokens + 0.002 * rows, rel=0.01
        )


def test_measured_rows_lie_on_pages_of_their_own() -> None:
    engine = Engine()
    measure(engine, CONFIG, 1000, lambda: engine.now)
    for rows in engine.rows:
        pages = [page for row in rows for page in row.pages]
        assert len(pages) == len(set(pages))
        assert all(row.end <= len(row.pages) * CONFIG.page_size for row in rows)


def test_sizes_for_which_pages_do_not_suffice_are_left_out() -> None:
    engine = Engine()
    assert measure(engine, CONFIG, 20, lambda: engine.now).tokens[-1] < 32


def keeper(planner: Budget | Fixed, path: Path) -> Keeper:
    return Keeper(planner, path, "a machine", None, None)


def test_what_one_service_learns_the_next_one_begins_with(tmp_path: Path) -> None:
    path = tmp_path / "costs" / "t.json"
    first = Budget(PlannerConfig())
    kept = keeper(first, path)
    kept.turn(0.0)
    assert not path.exists()
    for _ in range(ENOUGH):
        first.learn(outcome((0, 0), (0, 0), forward=0.02))
    kept.turn(30.0)
    assert not path.exists()  # it is not due
    kept.turn(61.0)
    second = Budget(PlannerConfig())
    keeper(second, path)
    assert second.costs.table is not None
    assert second.costs.table.cost(2, 2) == pytest.approx(0.02)


def test_a_broken_table_costs_nothing_but_what_it_held(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"format": 1}', encoding="utf-8")
    planner = Budget(PlannerConfig())
    keeper(planner, path)
    assert planner.costs.table is None
    assert "is broken" in caplog.text


def test_a_planner_that_weighs_nothing_keeps_nothing(tmp_path: Path) -> None:
    keeper(Fixed(PlannerConfig()), tmp_path / "t.json").close()
    assert list(tmp_path.iterdir()) == []


def test_another_machine_model_number_of_threads_or_kind_of_pages_has_another_file() -> None:
    other = CONFIG.model_copy(update={"threads": 7})
    short = CONFIG.model_copy(update={"kv_dtype": "fp8"})
    found = {
        place(CONFIG, "w", "m"),
        place(CONFIG, "v", "m"),
        place(CONFIG, "w", "n"),
        place(other, "w", "m"),
        place(short, "w", "m"),
    }
    assert len(found) == 5
    named = short.model_copy(update={"kv_dtype": "fp8_e4m3"})
    assert place(named, "w", "m") == place(short, "w", "m")


def test_a_table_is_replaced_at_once(tmp_path: Path) -> None:
    for seconds in (0.01, 0.02):
        write(tmp_path / "t.json", CostTable((1,), (seconds,)), "m", "measured")
    assert read(tmp_path / "t.json") == CostTable((1,), (0.02,))
    assert [each.name for each in tmp_path.iterdir()] == ["t.json"]
