"""The formulas, against the figures of the seed document; and what the command says and draws."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.economics import Economics, emitted, tie
from verifier.costs import CostTable
from verifier.profiling import read, write

CHAIN = Economics(0.7, 0.165, 295)
PARALLEL = Economics(0.7, 0.165, 295, parallel=True)


def test_the_published_figures_come_out() -> None:
    assert emitted(0.7, 3) == pytest.approx(2.533)
    assert round(CHAIN.speedup(3), 2) == 1.69
    assert round(PARALLEL.speedup(3), 2) == 2.17
    assert CHAIN.break_even(3) == pytest.approx(150, abs=1)
    assert PARALLEL.break_even(3) == pytest.approx(175, abs=1)
    same = tie(CHAIN, 3)
    assert same == pytest.approx(0.536, abs=0.002)  # the seed rounds; it is 0.5348
    assert emitted(same, 3) / 1.165 == pytest.approx(2.533 / 1.495)
    assert round(Economics(0.35, 0.165, parallel=True).speedup(3), 2) == 1.30
    assert round(PARALLEL.at_saturation(3), 2) == 0.61


def test_no_drafts_are_plain_decoding_and_saturation_never_pays() -> None:
    for requests in (1, 100, 1000):
        assert CHAIN.speedup(0, requests) == 1
    for acceptance in (0.1, 0.5, 0.9, 1.0):
        assert Economics(acceptance, 0.01).at_saturation(5) <= 1
    assert CHAIN.speedup(3, 140) > 1 > CHAIN.speedup(3, 160)
    assert CHAIN.speedup(3, 5000) == pytest.approx(emitted(0.7, 3) / (4 + 3 * 0.165))


def test_a_measured_table_takes_the_place_of_the_saturation_point() -> None:
    flat = Economics(0.7, 0.165, table=CostTable((1, 100), (0.01, 0.01)))
    dear = Economics(0.7, 0.165, table=CostTable((1, 101), (0.01, 1.01)))
    assert flat.speedup(3) == pytest.approx(CHAIN.speedup(3))
    assert (flat.best(1), dear.best(1)) == (CHAIN.best(1), 0)
    assert dear.break_even(3) == 0


def test_the_command_says_it(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["economics", "--plot", str(tmp_path)])
    assert told.exit_code == 0, told.output
    for figure in ("1.69x", "2.17x", "150", "175", "0.535", "1.30x"):
        assert figure in told.output
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == [
        "economics-length.png", "economics-length.svg", "economics-load.png", "economics-load.svg",
    ]  # fmt: skip
    assert (tmp_path / "economics-load.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_that_is_not_there_or_broken_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    assert (
        "there is no cost table"
        in CliRunner().invoke(app, ["economics", "--table", str(path)]).output
    )
    path.write_text("{}", encoding="utf-8")
    assert "is broken" in CliRunner().invoke(app, ["economics", "--table", str(path)]).output


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = CostTable((1, 4, 9), (0.01, 0.02, 0.05), row=0.001, padded=4)
    write(tmp_path / "new" / "t.json", table, "a machine", "measured")
    assert read(tmp_path / "new" / "t.json") == table
    assert read(tmp_path / "none.json") is None
