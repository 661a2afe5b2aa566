"""Where values come from, and what is said of those that mean nothing."""

import os
from pathlib import Path

import pytest

from orchestrator.config import Config
from orchestrator.settings import ConfigError, load


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("DRAFTMESH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def written(text: str, name: str = "draftmesh.yaml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def refused(flags: dict[str, object] | None = None, file: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(flags or {}, file)
    return str(caught.value)


def test_nothing_said_is_the_default() -> None:
    assert load({"port": None}) == Config()


def test_flags_over_environment_over_file_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    written("port: 1\ndrafters: 5\nverifiers: 3\n")
    monkeypatch.setenv("DRAFTMESH_PORT", "2")
    monkeypatch.setenv("DRAFTMESH_DRAFTERS", "7")
    config = load({"port": 3})
    assert (config.port, config.drafters, config.verifiers, config.window) == (3, 7, 3, 16)


def test_sections_are_merged_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    written("verifier:\n  page_size: 8\n  scheduler: {max_running: 3, max_chunk: 32}\n")
    monkeypatch.setenv("DRAFTMESH_VERIFIER__SCHEDULER__MAX_RUNNING", "4")
    verifier = load({}).verifier
    assert (verifier.page_size, verifier.scheduler.max_running) == (8, 4)
    assert verifier.scheduler.max_chunk == 32


def test_a_named_file_is_read_instead_of_the_usual_one() -> None:
    written("port: 1")
    assert load({}, written("port: 2", "other.yaml")).port == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("drafers: 1", "There is no drafers (in draftmesh.yaml); did you mean 'drafters'?"),
        (
            "verifier: {scheduler: {max_runing: 1}}",
            "There is no verifier.scheduler.max_runing (in draftmesh.yaml); "
            "did you mean 'max_running'?",
        ),
        (
            "drafters: -1",
            "drafters (in draftmesh.yaml) cannot be -1: Input should be greater than or equal to 0",
        ),
        (
            "method: sufix",
            "method (in draftmesh.yaml) cannot be 'sufix': there is no method 'sufix'; "
            "did you mean 'suffix'?",
        ),
        ("- 1", "The file draftmesh.yaml is no mapping of keys to values"),
    ],
)
def test_a_fault_in_the_file_is_named(text: str, sentence: str) -> None:
    written(text)
    assert refused() == sentence


def test_a_file_that_is_no_yaml_says_where() -> None:
    written("a: [")
    assert refused().startswith("The file draftmesh.yaml is no YAML")


def test_a_named_file_must_be_there() -> None:
    assert refused(file=Path("nowhere.yaml")).startswith("The file nowhere.yaml cannot be read")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("DRAFTMESH_POTR", "1", "There is no DRAFTMESH_POTR; did you mean 'DRAFTMESH_PORT'?"),
        (
            "DRAFTMESH_VERIFIER__THREDS",
            "1",
            "There is no DRAFTMESH_VERIFIER__THREDS; did you mean 'DRAFTMESH_VERIFIER__THREADS'?",
        ),
        (
            "DRAFTMESH_PORT",
            "http",
            "DRAFTMESH_PORT cannot be 'http': Input should be a valid integer, "
            "unable to parse string as an integer",
        ),
    ],
)
def test_a_fault_in_the_environment_is_named(
    name: str, value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert refused() == sentence


def test_the_cache_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTMESH_CACHE", "/somewhere")
    assert load({}) == Config()


def test_a_fault_in_a_flag_is_named() -> None:
    assert refused({"draft_length": 1000}).startswith("--draft-length cannot be 1000")


def test_a_flag_of_a_section_is_named_as_it_was_written() -> None:
    flags: dict[str, object] = {
        "front": {"per_request_spec_decode_metrics": "much", "api_key": None}
    }
    assert refused(flags).startswith("--per-request-spec-decode-metrics cannot be 'much'")
    assert load({"front": {"api_key": None}}) == Config()


def test_what_is_decided_elsewhere_says_where() -> None:
    written("verifier: {planner: {draft_length: 3}}")
    assert "verifier.planner.draft_length is decided by `draft_length`" in refused()


def test_what_is_shown_can_be_read_back() -> None:
    shown = Config().shown()
    assert Config.model_validate(shown).shown() == shown
