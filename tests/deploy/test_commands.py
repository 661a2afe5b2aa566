"""`orchestrator run`, `render k8s` and `keys secret`, as a person types them."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from orchestrator.cli import app
from protocol.keys import KeyRing
from tests.deploy.chart import CHART, ROOT, manifests, settings
from tests.deploy.typed import parsed

KUBERNETES = (ROOT / "docs" / "kubernetes.md").read_text()


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def said(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "verifer"), "There is no role 'verifer'; did you mean 'verifier'?"),
        (("run", "drafter", "--dial", "tcp://a:1"), "--dial: a drafter dials nobody"),
        (("run", "front", "--bind", "tcp://0.0.0.0:1"), "--bind: a front door is not dialled"),
        (("run", "drafter", "--rank", "1"), "--rendezvous, --rank: a drafter has no ranks"),
        (("run", "verifier", "--rank", "1"), "--rank: a verifier is rank 0"),
        (("run", "follower", "--rank", "1"), "A follower needs --rendezvous HOST:PORT"),
        (
            ("run", "follower", "--rank", "1", "--rendezvous", "a:1", "--dial", "tcp://a:1"),
            "--bind, --dial: a follower is not on the mesh",
        ),
        (("run", "front", "--config", "gone.yaml"), "The file gone.yaml cannot be read"),
    ],
)
def test_what_cannot_be_run_is_said(arguments: tuple[str, ...], text: str) -> None:
    code, _, heard = said(*arguments)
    assert code == 2
    assert text in heard


def test_values_of_a_configuration_are_taken_by_the_chart(tmp_path: Path) -> None:
    Path("draftmesh.yaml").write_text("{target: gone, drafters: 3, port: 9, launcher: ray}")
    code, values, heard = said("render", "k8s")
    assert (code, heard) == (0, "")
    assert yaml.safe_load(values) == {"config": {"target": "gone", "drafters": 3}}
    file = tmp_path / "values.yaml"
    file.write_text(values)
    found = tuple(manifests(file, **{"mesh.insecure": "true"}))
    assert yaml.safe_load(settings(found))["drafters"] == 3


def test_a_folder_of_this_machine_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    Path("draftmesh.yaml").write_text(f"target: {tmp_path / 'model'}")
    _, _, heard = said("render", "k8s")
    assert "is a folder here: mount it in the pods" in heard


def test_a_service_that_is_not_there_is_named() -> None:
    code, _, heard = said("render", "k8s", "--url", "http://127.0.0.1:1")
    assert code == 1
    assert "http://127.0.0.1:1 does not say how it is configured" in heard


def test_keys_become_a_secret_that_is_the_same_keys(tmp_path: Path) -> None:
    ours = KeyRing(tmp_path / "keys")
    ours.new()
    code, text, heard = said("keys", "secret", "mesh", "--folder", str(ours.folder))
    assert (code, heard) == (0, "")
    secret = yaml.safe_load(text)
    assert (secret["kind"], secret["metadata"]["name"]) == ("Secret", "mesh")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for name, content in secret["stringData"].items():
        (mounted / name).write_text(content)
        (mounted / name).chmod(0o400)
    assert KeyRing(mounted).own() == ours.own()


def test_no_keys_are_no_secret(tmp_path: Path) -> None:
    code, text, heard = said("keys", "secret", "--folder", str(tmp_path / "none"))
    assert (code, text) == (1, "")
    assert "There is no key in" in heard


@pytest.mark.parametrize("page", ["kubernetes.md", "ray.md"])
def test_commands_of_the_docs_are_ours(page: str) -> None:
    text = (ROOT / "docs" / page).read_text().replace("\\\n", " ")
    typed = re.findall(r"^(?:\$ )?orchestrator (.*)$", text, flags=re.MULTILINE)
    assert typed
    for line in typed:
        words = shlex.split(line, comments=True)
        end = next((at for at, word in enumerate(words) if word in {"|", ">"}), len(words))
        parsed(words[:end])


def test_the_command_that_helm_tells_is_ours() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    (typed,) = re.findall(r"-- orchestrator (.*)$", notes, flags=re.MULTILINE)
    given = parsed(shlex.split(typed))
    assert (given["command"], given["launcher"], given["detach"]) == ("up", "ray", False)
    assert str(given["config"]) == "/etc/draftmesh/draftmesh.yaml"


@pytest.mark.parametrize("path", re.findall(r"`([\w./-]+/[\w./-]+)`", KUBERNETES))
def test_files_of_the_docs_are_there(path: str) -> None:
    places = (ROOT, ROOT / "deploy" / "helm" / "draftmesh")
    assert path.startswith("/") or any((place / path).exists() for place in places)
