"""`config show` and `config schema`: where values come from, and what a file may hold."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from orchestrator.commands.configuration import schema_of_file, show
from orchestrator.config import Config
from orchestrator.settings import load


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_value_tells_who_set_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("draftmesh.yaml").write_text(
        "drafters: 5\nport: 81\nverifier: {planner: {patience: 0.5}}\n", encoding="utf-8"
    )
    monkeypatch.setenv("DRAFTMESH_PORT", "8123")
    monkeypatch.setenv("DRAFTMESH_FRONT__MAX_REQUESTS", "7")
    assert show(None, as_json=False) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "drafters: 5  # drafters (in draftmesh.yaml)" in lines
    assert "port: 8123  # DRAFTMESH_PORT" in lines
    assert "max_requests: 7  # DRAFTMESH_FRONT__MAX_REQUESTS" in lines
    assert "patience: 0.5  # verifier.planner.patience (in draftmesh.yaml)" in lines
    assert "draft_length: null" in lines


def test_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("link: {frame_bytes: 9000000}\n", encoding="utf-8")
    assert show(Path("mine.yaml"), as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["link.frame_bytes"] == {
        "value": 9_000_000,
        "origin": "link.frame_bytes (in mine.yaml)",
    }
    assert told["drafters"] == {"value": 2, "origin": "default"}


def test_what_is_shown_can_be_read_back_and_fits_the_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(None, as_json=False)
    values = yaml.safe_load(capsys.readouterr().out)
    assert values == Config().shown()
    Path("again.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    assert load({}, Path("again.yaml")) == Config()
    schema = schema_of_file()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(values, schema)


@pytest.mark.parametrize(
    "wrong",
    [
        {"drafers": 2},
        {"drafters": -1},
        {"verifier": {"node_id": "x"}},
        {"verifier": {"planner": {"draft_length": 4}}},
    ],
)
def test_what_a_file_may_not_hold_is_outside_the_schema(wrong: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema_of_file())
