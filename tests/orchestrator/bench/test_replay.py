"""Recorded rounds under other planners: what a place's tail was, what steps take, what the oracle would do."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.bench.planners import HINDSIGHT, results
from orchestrator.bench.replay import Request, Trace, by_planner, traces
from orchestrator.cli import app
from verifier.config import PlannerConfig
from verifier.costs import CostTable
from verifier.planners.fixed import Fixed
from verifier.planners.oracle import oracle
from verifier.traces import Line, TracedEnd, TracedRound, TracedStep

DEAR = CostTable((1, 101), (0.01, 0.31))
FLAT = CostTable((1, 101), (0.01, 0.01))


def traced(position: int, right: int, *confidences: float, request: int = 1) -> TracedRound:
    """A round in which nothing was verified, so that every place of the output is recorded."""
    return TracedRound(
        0, request, position, "suffix", confidences, len(confidences), right, 0, 0, 1, "set"
    )


def recorded(
    seed: int, requests: int = 6, output: int = 60, *, wrong: bool = False
) -> list[Request]:
    """Answers with tails of 15 at every place; how likely a guess is right is what it says, unless all are wrong."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(requests):
        rounds = []
        for position in range(1, output):
            level = rng.choice([0.2, 0.6, 0.95])
            said = tuple(float(each) for each in rng.beta(20 * level, 20 * (1 - level), 15))
            hits = rng.random(15) < said
            right = 0 if wrong else int(np.argmin(hits)) if not hits.all() else 15
            rounds.append(traced(position, min(right, output - position), *said))
        made.append(Request(rounds, output))
    return made


def test_a_place_between_two_rounds_has_what_is_left_of_the_earlier_tail() -> None:
    request = Request([traced(1, 3, 0.9, 0.8, 0.7, 0.6), traced(5, 0, 0.1)], 9)
    assert request.tail(1) == ((0.9, 0.8, 0.7, 0.6), 4, 3, "suffix")
    assert request.tail(3) == ((0.7, 0.6), 2, 1, "suffix")
    assert request.tail(5) == ((0.1,), 1, 0, "suffix")
    assert request.tail(6)[1:] == (0, 0, "suffix")  # the tail was wrong there
    assert request.tail(0)[1:] == (0, 0, "")


def test_the_oracle_takes_right_guesses_as_far_as_they_pay() -> None:
    assert oracle([3, 1, 0], np.full(5, 0.01)) == [3, 1, 0]
    assert oracle([3, 1, 0], np.array([1.0, 1.1, 1.2, 9.0, 9.0])) == [1, 1, 0]
    assert oracle([0, 0], np.array([1.0])) == [0, 0]
    assert oracle([2], np.array([1.0, 2.0, 3.0])) == [0]


def test_plain_decoding_takes_a_step_for_every_token() -> None:
    done = by_planner(Trace(recorded(1, 3, 20), DEAR), 1, Fixed(PlannerConfig(draft_length=0)))
    assert done.tokens == 3 * 19
    assert done.seconds == pytest.approx(57 * 0.01)


def test_nobody_beats_the_oracle_and_it_is_never_worse_than_plain() -> None:
    for table in (DEAR, FLAT):
        for concurrency in (1, 4):
            told = {one.planner: one for one in results([Trace(recorded(2), table)], concurrency)}
            best = told["oracle"]
            assert best.deviation == 0
            assert best.share == 1
            assert best.to_plain >= 1
            assert all(one.tokens_per_s <= 1.02 * best.tokens_per_s for one in told.values())


@pytest.mark.parametrize("table", [DEAR, FLAT])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_budget_is_close_to_the_best_fixed_length_and_to_itself_in_hindsight(
    table: CostTable, concurrency: int
) -> None:
    told = {
        one.planner: one.tokens_per_s
        for one in results([Trace(recorded(3, 12, 120), table)], concurrency)
    }
    fixed = max(speed for name, speed in told.items() if name.startswith("fixed"))
    assert told["budget"] >= 0.95 * told[HINDSIGHT]
    assert told["budget"] >= 0.97 * fixed


def test_with_a_drafter_that_is_always_wrong_the_budget_is_nearly_plain() -> None:
    told = {one.planner: one for one in results([Trace(recorded(4, 12, 120, wrong=True), DEAR)], 4)}
    assert told["budget"].to_plain > 0.97
    assert told["fixed 8"].to_plain < 0.8
    assert told["oracle"].share is None


def lines(steps: int = 3) -> list[Line]:
    rounds: list[Line] = [traced(position, 1, 0.9, 0.2) for position in range(1, 4)]
    timed: list[Line] = [TracedStep(step, 1, 3, 0, 0.02, 0.02) for step in range(steps)]
    return [*timed, *rounds, TracedEnd(1, 4)]


def test_a_file_of_two_lives_is_two_traces() -> None:
    found = traces([*lines(), *lines(), TracedStep(0, 1, 1, 0, 0.01, 0.01), TracedEnd(1, 1)])
    assert [len(each.requests) for each in found] == [1, 1]
    assert found[0].table == CostTable((3,), (0.02,))


def test_the_command_reads_a_file_tells_and_draws(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(each) for each in lines()))
    told = CliRunner().invoke(
        app, ["bench", "planner", str(path), "--concurrency", "1", "--plot", str(tmp_path / "out")]
    )
    assert told.exit_code == 0, told.output
    assert "oracle" in told.output
    drawn = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert drawn == ["planner-lengths.png", "planner-lengths.svg"]


@pytest.mark.parametrize(
    ("text", "says"), [("{}", "no trace of rounds"), ("", "no finished answer")]
)
def test_a_file_that_is_no_trace_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(text, encoding="utf-8")
    told = CliRunner().invoke(app, ["bench", "planner", str(path)])
    assert told.exit_code != 0
    assert says in told.output
