"""Others judge what is rendered: Kubernetes' own schemas for two versions, and a list of bad habits."""

import json
import subprocess
from pathlib import Path
from typing import Final

import jsonschema
import pytest
import yaml

from tests.deploy.chart import ROOT, Manifest, of_kind, pods, rendered, text, workloads
from tests.deploy.tools import program

SCHEMAS: Final = Path(__file__).parent / "schemas"
CUSTOM: Final = tuple(sorted(path.stem for path in SCHEMAS.glob("*.json")))
VERSIONS: Final = ("1.31", "1.37")
SKIPPED: Final = {
    "CKV_K8S_15": "a tag of ours never moves, and a digest may be given",
    "CKV_K8S_43": "the digest is known when an image is built: image.digest takes it",
    "CKV_K8S_35": "the front door reads its key from the environment; a file would be as open to it",
}
"""Checks of checkov that do not hold, and why."""


def test_custom_resources_fit_their_schemas(found: tuple[Manifest, ...]) -> None:
    for kind in CUSTOM:
        judge = jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text()))
        for each in of_kind(found, kind):
            judge.validate(each)


def test_a_wrong_custom_resource_would_be_noticed(found: tuple[Manifest, ...]) -> None:
    for each in of_kind(found, *CUSTOM):
        judge = jsonschema.Draft202012Validator(
            json.loads((SCHEMAS / f"{each['kind']}.json").read_text())
        )
        assert not judge.is_valid({**each, "spec": {**each["spec"], "replicaz": 1}})


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_would_know_every_field(values: Path, version: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(text(values) + grouped(values))
    judge = program("kubernetes-validate", "1.37.0")
    done = subprocess.run(
        [judge, "--strict", "-k", version, file], capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).splitlines()
    kinds = [each["kind"] for each in yaml.safe_load_all(file.read_text()) if each]
    known = sum(kind not in CUSTOM for kind in kinds)
    assert done.returncode == 0, said
    assert sum(" passed for resource " in line for line in said) == known, said


@pytest.mark.full
def test_no_bad_habit_is_left(values: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(text(values) + grouped(values))
    assert _failed("kubernetes", file) <= SKIPPED.keys()


@pytest.mark.full
def test_the_image_has_no_bad_habit() -> None:
    assert _failed("dockerfile", ROOT / "deploy" / "docker" / "Dockerfile") == set()


def grouped(values: Path) -> str:
    """Pods that only a custom resource has, as pods: whoever judges pods does not look there."""
    found = rendered(values)
    kept = {"apiVersion": "v1", "kind": "Pod"}
    made = [
        {**kept, **pod, "metadata": {**pod["metadata"], "name": role, "namespace": "prod"}}
        for role, pod in pods(found).items()
        if any("leaderWorkerTemplate" in each["spec"] for each in workloads(found).values())
        and role in {"verifier", "follower"}
    ]
    return "".join(f"---\n{yaml.safe_dump(each)}" for each in made)


def _failed(framework: str, file: Path) -> set[str]:
    """Checks that failed; that some passed shows that it read the file."""
    arguments = ["-f", str(file), "--framework", framework, "--skip-download", "-o", "json"]
    done = subprocess.run(
        [program("checkov", "3.3.30"), *arguments], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    if "results" not in report:  # nothing that it knows: only resources of others
        assert set(kinds(file)) <= {*CUSTOM, "ConfigMap", "ServiceAccount"}
        return set()
    assert report["summary"]["passed"] > 0
    return {each["check_id"] for each in report["results"]["failed_checks"]}


def kinds(file: Path) -> list[str]:
    return [each["kind"] for each in yaml.safe_load_all(file.read_text()) if each]
