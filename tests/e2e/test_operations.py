"""`docs/operations.md` and `docs/observability.md`: all of their commands, as a reader would type them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from orchestrator.ending import EXIT_CODES
from orchestrator.traces.files import picked, read
from orchestrator.traces.reading import traces
from protocol import attributes
from tests.e2e.collector import collecting
from tests.e2e.service import ROOT, until
from tests.models import write_byte_llama

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
WATCHING = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
SECONDS = 120.0


def commands(page: str = PAGE) -> list[str]:
    """Every line behind a `$` in a block of the console."""
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [
        line.removeprefix("$ ")
        for block in blocks
        for line in block.splitlines()
        if line[:2] == "$ "
    ]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A folder with a configuration for a small model, and `orchestrator` on the path; the environment for it."""
    write_byte_llama(tmp_path / "model")
    config = {
        "target": str(tmp_path / "model"),
        "dtype": "float32",
        "port": 0,
        "verifier": {"planner": {"name": "fixed"}},  # so small a target needs no drafts
    }
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump(config))
    program = tmp_path / "bin" / "orchestrator"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "DRAFTMESH_CACHE": str(tmp_path / "cache"),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "OMP_NUM_THREADS": "1",
    }
    yield environment
    subprocess.run(
        [program, "down", "--all", "--now"], env=environment, check=False, capture_output=True
    )


def typed(
    command: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def last(environment: dict[str, str]) -> set[str]:
    """The names of the spans that `trace --last` would show."""
    [folder] = (Path(environment["DRAFTMESH_CACHE"]) / "traces").iterdir()
    return {span.name for span in picked(traces(read(folder)), "") or ()}


@pytest.mark.full
def test_a_reader_can_type_all_of_it(tmp_path: Path, reader: dict[str, str]) -> None:
    said: dict[str, list[str]] = {}
    for command in commands():
        if command.startswith("orchestrator trace --last"):
            until(lambda: {attributes.MIRROR, attributes.CHOICE} <= last(reader), "spans are kept")
        done = typed(command, tmp_path, reader)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said.setdefault(command, []).append(done.stdout)
    first, again = said[next(each for each in said if each.startswith("orchestrator generate"))]
    assert first == again, "a drafter that is killed changes nothing"
    rows = [line.split()[:2] for line in said["orchestrator trace --last"][0].splitlines()]
    assert ["drafter", "mirror"] in rows
    assert "detokenise" in {row[0] for row in rows}
    assert ET.parse(tmp_path / "last.svg").getroot().tag.endswith("svg")  # noqa: S314  # our own
    assert "drafter-far" in said["orchestrator status"][1]
    [found] = said["orchestrator doctor --output json"]
    told = {each["what"]: each["text"] for each in json.loads(found)}
    assert re.match(r"ready, .* ms there and back, clock .* ms from this one", told["verifier-0"])
    assert "verifier-0" in said["orchestrator logs verifier -n 1"][0]
    assert typed("orchestrator status", tmp_path, reader).returncode == 3


@pytest.mark.full
def test_a_reader_can_watch_as_it_is_shown(tmp_path: Path, reader: dict[str, str]) -> None:
    """Ports, and the number of a trace, are those of this machine; `--detach` gives the prompt back."""
    curl, up, newest, older = commands(WATCHING)
    ask = 'orchestrator generate "1, 2, 3" --raw --max-tokens 8'

    def type_in(command: str) -> str:
        done = typed(command, tmp_path, reader)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    with collecting() as collector:
        assert "http://127.0.0.1:4317" in up
        type_in(up.replace("http://127.0.0.1:4317", collector.url) + " --detach")
        type_in(ask)
        until(lambda: attributes.CHOICE in {span.name for span in collector.spans}, "it is told")
        url = json.loads(type_in("orchestrator status --json"))["url"]
        page = type_in(curl.replace("http://127.0.0.1:8000", url))
        assert "vllm:spec_decode_num_drafts_total{" in page
        type_in("orchestrator down")
    type_in("orchestrator up --trace --detach")
    type_in(ask)
    until(lambda: {attributes.MIRROR, attributes.CHOICE} <= last(reader), "spans are kept")
    assert "verifier choice" in type_in(newest)
    number = json.loads(type_in(f"{newest} --output json"))["trace"]
    type_in("cat cache/traces/*/*.jsonl > spans.jsonl")
    assert "4bf92f" in older
    type_in(older.replace("4bf92f", number[:6]))
    assert ET.parse(tmp_path / "it.svg").getroot().tag.endswith("svg")  # noqa: S314  # our own
    assert "verifier choice" in (tmp_path / "it.html").read_text(encoding="utf-8")


def test_there_are_commands_and_their_exit_codes_are_the_programs() -> None:
    assert len(commands()) > 15
    table = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert {int(code): text for code, text in table} == EXIT_CODES
