"""The image and the compose file, as far as they can be known without a builder."""

import re
import tomllib
from typing import Any

import yaml

from orchestrator.commands.run import check
from orchestrator.config import Config
from orchestrator.launch.plan import DIALS, Place
from tests.deploy.chart import ROOT
from tests.deploy.typed import parsed

IMAGE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())


def test_every_package_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert set(re.findall(r"^COPY (\w+) \1$", IMAGE, flags=re.MULTILINE)) == packages
    ignored = (ROOT / "deploy" / "docker" / "Dockerfile.dockerignore").read_text().split()
    files = {"constraints.txt", "pyproject.toml", "README.md", "LICENSE"}
    assert {name.removeprefix("!") for name in ignored if name[0] == "!"} == packages | files
    assert all((ROOT / name).exists() for name in packages | files)


def test_the_image_runs_our_command_as_nobody_special() -> None:
    assert 'ENTRYPOINT ["tini", "--", "orchestrator"]' in IMAGE
    assert "USER 10001:10001" in IMAGE
    ports = re.findall(r"^EXPOSE (.*)$", IMAGE, flags=re.MULTILINE)
    assert ports == ["8000 7400 9100 9200"], "those that the chart names"


def test_containers_of_the_compose_file_dial_each_other() -> None:
    config = Config.model_validate(yaml.safe_load(COMPOSE["configs"]["service"]["content"]))
    assert (config.host, config.port, config.mesh.insecure) == ("0.0.0.0", 8000, True)
    (place,) = COMPOSE["services"]["front"]["configs"]
    binds = {}
    for name, service in COMPOSE["services"].items():
        given = parsed(service["command"])
        assert given["role"] == name
        assert str(given["config"]) == place["target"]
        check(name, Place("here", given["bind"], tuple(given["dial"] or ())))
        binds[name] = given["bind"].rpartition(":")[2]
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
    for asks, (asked, *_) in DIALS.items():
        (dialled,) = parsed(COMPOSE["services"][asks]["command"])["dial"]
        assert dialled == f"tcp://{asked}:{binds[asked]}"
    assert COMPOSE["services"]["front"]["ports"] == ["127.0.0.1:8000:8000"]


def test_there_is_time_to_drain() -> None:
    seconds = int(COMPOSE["services"]["front"]["stop_grace_period"].rstrip("s"))
    assert seconds > Config().front.drain_seconds
