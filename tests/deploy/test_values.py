"""Values of the chart: what helm takes and refuses, and where they come from."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.config import Config
from orchestrator.kubernetes.values import Values, values_of
from orchestrator.settings import load
from tests.deploy import value_schema
from tests.deploy.chart import CHART, FILES, RefusedError, manifests, settings, text
from tests.deploy.tools import helm

DEMO = next(path for path in FILES if path.stem == "cpu-demo")


def test_the_schema_is_made_from_the_configuration() -> None:
    assert value_schema.PLACE.read_text() == value_schema.made(), (
        "python -m tests.deploy.value_schema"
    )


def test_the_defaults_of_the_chart_are_those_of_the_models() -> None:
    given = yaml.safe_load((CHART / "values.yaml").read_text())
    Values.model_validate({**given, "config": Config.model_validate(given["config"])})
    default = Values().model_dump(mode="json", exclude={"config"})
    for section, values in given.items():
        if section == "config" or not isinstance(values, dict):
            continue
        for key, value in values.items():
            if key != "resources":
                assert default[section][key] == value, (section, key)


def test_every_values_file_is_linted_strictly(values: Path) -> None:
    done = subprocess.run(
        [helm(), "lint", "--strict", CHART, "-f", values],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("config.drafters", "many", "at '/config/drafters': got string, want integer"),
        (
            "config.verifier.planer.name",
            "fixed",
            "at '/config/verifier': additional properties 'planer'",
        ),
        ("config.verifier.ranks", "far", "at '/config/verifier/ranks': value must be one of"),
        ("config.verifier.rank", "1", "at '/config/verifier': additional properties 'rank'"),
        ("verifier.rendezvousPort", "80", "at '/verifier/rendezvousPort': minimum"),
        ("config.verifier.kv_bytes", "1", "at '/config/verifier/kv_bytes': minimum"),
        ("config.verifier.planner.draft_length", "3", "at '/config/verifier/planner': additional"),
        ("config.dtype", "int8", "at '/config/dtype': value must be one of"),
        ("config.port", "1", "at '/config': additional properties 'port'"),
        ("config.front.api_key", "x", "at '/config/front': additional properties 'api_key'"),
        ("mesh.port", "80", "at '/mesh/port': minimum"),
        ("autoscaling.kind", "magic", "at '/autoscaling/kind': value must be one of"),
        ("image.digest", "latest", "at '/image/digest': 'latest' does not match"),
        ("drafters", "3", "at '': additional properties 'drafters'"),
    ],
)
def test_wrong_values_are_refused_with_their_path(key: str, value: str, said: str) -> None:
    with pytest.raises(RefusedError) as refused:
        text(DEMO, **{key: value})
    assert said in str(refused.value)


def test_prefill_nodes_and_ranks_are_refused_together() -> None:
    sets = {"config.prefill": "1", "config.verifier.tensor_parallel": "2"}
    with pytest.raises(RefusedError, match=r"config\.prefill with config\.verifier\.tensor"):
        text(DEMO, **sets)


@pytest.mark.parametrize("sets", [{"mesh.insecure": "false"}, {"mesh.keysSecret": "keys"}])
def test_who_may_speak_on_the_mesh_is_said_once(sets: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match=r"either mesh\.keysSecret"):
        text(DEMO, **sets)


def test_a_configuration_comes_through_the_chart_unchanged(tmp_path: Path) -> None:
    shared: dict[str, Any] = {
        "target": "/models/a",
        "method": "ngram",
        "verifiers": 3,
        "drafters": 0,
        "verifier": {"kv_bytes": 1 << 36, "planner": {"patience": 0.0015}},
        "drafter": {"suffix": {"corpus_tokens": 12_345_678}},
        "front": {"drain_seconds": 31.5},
        "link": {"silence": 4.25},
    }
    config = Config.model_validate({**shared, "host": "10.0.0.1", "port": 9})
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({**values_of(config.shown()), "mesh": {"insecure": True}}))
    seen = tmp_path / "draftmesh.yaml"
    seen.write_text(settings(tuple(manifests(values))))
    asked = {"health": {"host": "0.0.0.0", "port": 9200}}
    decided = {
        "host": "0.0.0.0",
        "port": 8000,
        "mesh": {"insecure": True},
        "front": {**shared["front"], "metrics_port": 9100},
        "verifier": {**shared["verifier"], **asked},
        "drafter": {**shared["drafter"], **asked},
    }
    assert load({}, seen) == Config.model_validate({**shared, **decided})


def test_what_is_default_is_not_written() -> None:
    assert values_of(Config(drafters=5, port=1).shown()) == {"config": {"drafters": 5}}
