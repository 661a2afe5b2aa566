"""The chart as helm renders it, and what belongs together in it."""

import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.tools import helm

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "draftmesh"
FILES: Final = tuple(sorted((ROOT / "deploy" / "helm" / "values").glob("*.yaml")))

Manifest = dict[str, Any]


class RefusedError(Exception):
    """What helm says against values."""


def text(*values: Path, **sets: str) -> str:
    """Everything that a release called `dm` in the namespace `prod` consists of."""
    files = [part for path in values for part in ("-f", str(path))]
    said = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
    done = subprocess.run(
        [helm(), "template", "dm", CHART, "-n", "prod", *files, *said],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RefusedError(done.stderr)
    return done.stdout


def manifests(*values: Path, **sets: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(text(*values, **sets)) if each]


@cache
def rendered(values: Path) -> tuple[Manifest, ...]:
    """Those of one file of values; not to be changed."""
    return tuple(manifests(values))


def of_kind(found: tuple[Manifest, ...], *kinds: str) -> Iterator[Manifest]:
    return (each for each in found if each["kind"] in kinds)


def named(found: tuple[Manifest, ...], kind: str, name: str) -> Manifest:
    """The one that is called so; an AssertionError when there is none."""
    hits = [each for each in of_kind(found, kind) if each["metadata"]["name"] == name]
    assert len(hits) == 1, f"{len(hits)} of {kind} {name}"
    return hits[0]


def workloads(found: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """What keeps a number of pods, by their role; where they are groups, by that of the first of them."""
    kinds = ("Deployment", "StatefulSet", "LeaderWorkerSet")
    return {_role(_templates(each)[0]): each for each in of_kind(found, *kinds)}


def pods(found: tuple[Manifest, ...]) -> dict[str, Manifest]:
    return {_role(pod): pod for each in workloads(found).values() for pod in _templates(each)}


def _templates(workload: Manifest) -> list[Manifest]:
    group = workload["spec"].get("leaderWorkerTemplate")
    if group is None:
        return [workload["spec"]["template"]]
    return [group["leaderTemplate"], group["workerTemplate"]]


def _role(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def container(pod: Manifest) -> Manifest:
    (only,) = pod["spec"]["containers"]
    return dict(only)


def selected(found: tuple[Manifest, ...], selector: Mapping[str, str]) -> list[str]:
    """Roles of the pods that a selector hits."""
    assert selector
    return [
        role
        for role, pod in pods(found).items()
        if selector.items() <= pod["metadata"]["labels"].items()
    ]


def settings(found: tuple[Manifest, ...]) -> str:
    """The configuration that pods read."""
    return str(named(found, "ConfigMap", "dm-config")["data"]["draftmesh.yaml"])
