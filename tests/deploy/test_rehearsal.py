"""The chart's pods as processes, each in a network namespace of its own, found by name: no cluster, but nearly."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from orchestrator.cli import app
from protocol.keys import KeyRing
from tests.deploy.chart import manifests
from tests.deploy.kubelet import Cluster
from tests.deploy.namespaces import permitted
from tests.e2e.service import until
from tests.models import write_byte_llama

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not permitted(), reason="this user may make no network namespaces"),
]
API_KEY = "rehearsal"
PATIENCE = 150.0
"""Seconds in which a long answer is complete on a busy machine."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A front door, a verifier and two drafters that serve, with keys on the mesh and at the door."""
    write_byte_llama(tmp_path / "model", positions=4096)
    KeyRing(tmp_path / "keys").new()
    secret = CliRunner().invoke(app, ["keys", "secret", "--folder", str(tmp_path / "keys")]).stdout
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "config": {
                    "target": str(tmp_path / "model"),
                    "dtype": "float32",
                    "drafters": 2,
                    "verifier": {"drain_seconds": PATIENCE},
                },
                "mesh": {"keysSecret": "draftmesh-mesh"},
                "apiKey": {"secret": "draftmesh-api"},
            }
        )
    )
    secrets = {
        "draftmesh-mesh": yaml.safe_load(secret)["stringData"],
        "draftmesh-api": {"api-key": API_KEY},
    }
    made = Cluster(tuple(manifests(values)), tmp_path, secrets)
    try:
        for number in range(2):
            made.start("drafter", f"dm-drafters-{number}")
        made.start("verifier")
        made.start("front")
        for pod in made.pods:
            pod.wait_ready()
        until(
            lambda: drafters(made) == {"dm-drafters-0", "dm-drafters-1"}, "both drafters are found"
        )
        yield made
    finally:
        made.close()


def drafters(cluster: Cluster) -> set[str]:
    """Drafters that a verifier has a link with, as the front door's page of metrics tells."""
    page = httpx.get(cluster.url().replace(":8000", ":9100") + "/metrics", timeout=30).text
    trips = re.findall(r"^draftmesh_round_trip_seconds\{(.*)\}", page, flags=re.MULTILINE)
    peers = [re.search(r'peer="(dm-drafters-\d+)"', labels) for labels in trips]
    return {found[1] for found in peers if found}


@contextmanager
def load(cluster: Cluster, *lengths: int) -> Iterator[list[dict[str, Any]]]:
    """Clients that ask one question after the other, each for so many tokens; the list holds what they were told."""
    heard: list[dict[str, Any]] = []
    over = threading.Event()
    body = {"prompt": "one two one two one two", "temperature": 0, "ignore_eos": True}
    key = {"Authorization": f"Bearer {API_KEY}"}

    def ask(tokens: int) -> None:
        asked = {**body, "max_tokens": tokens}
        with httpx.Client(timeout=2 * PATIENCE, headers=key) as client:
            while not over.is_set():
                answer = client.post(f"{cluster.url()}/v1/completions", json=asked)
                heard.append(answer.json())

    threads = [threading.Thread(target=ask, args=(each,)) for each in lengths]
    for thread in threads:
        thread.start()
    try:
        yield heard
    finally:
        over.set()
        for thread in threads:
            thread.join()


def all_same(heard: list[dict[str, Any]]) -> bool:
    failed = [answer for answer in heard if "choices" not in answer]
    assert not failed, failed[:3]
    told = {
        (answer["usage"]["completion_tokens"], answer["choices"][0]["text"]) for answer in heard
    }
    assert len(told) == len({length for length, _ in told}), "one text for each length"
    return True


def test_nobody_is_served_without_the_key_and_values_come_back(cluster: Cluster) -> None:
    assert httpx.get(f"{cluster.url()}/v1/models").status_code == httpx.codes.UNAUTHORIZED
    asked = ["render", "k8s", "--url", cluster.url(), "--api-key", API_KEY]
    values = yaml.safe_load(CliRunner().invoke(app, asked).stdout)
    given = yaml.safe_load((cluster.folder / "values.yaml").read_text())
    del given["config"]["drafters"]  # two are the default
    assert values == {"config": given["config"]}, "what was set, and nothing else"


def test_drafters_appear_vanish_and_move_and_requests_go_on(cluster: Cluster) -> None:
    with load(cluster, 60, 60, 60, 60) as heard:
        third = cluster.start("drafter", "dm-drafters-2")
        until(lambda: "dm-drafters-2" in drafters(cluster), "one that appears is found")
        third.kill()
        until(lambda: "dm-drafters-2" not in drafters(cluster), "one that vanishes is let go")
        moved = next(pod for pod in cluster.pods if pod.name == "dm-drafters-0")
        moved.kill()
        until(lambda: "dm-drafters-0" not in drafters(cluster), "its address leads nowhere")
        anew = cluster.start("drafter", "dm-drafters-0")
        assert anew.address != moved.address
        until(lambda: "dm-drafters-0" in drafters(cluster), "it is found at its new address")
        count = len(heard)
        until(lambda: len(heard) > count + 10, "requests go on")
    assert all_same(heard)


def test_a_rolling_restart_of_drafters_and_then_of_verifiers(cluster: Cluster) -> None:
    with load(cluster, 60, 60, 1500, 1500) as heard:  # long ones outlive several lookups of names
        until(lambda: len(heard) > 10, "there is load")
        assert cluster.roll_drafters() == [0, 0], "they end by themselves"
        until(lambda: len(drafters(cluster)) == 2, "both are found at new addresses")
        during = len(heard)
        assert cluster.roll_verifiers() == [0], "it ends when it has drained"
        until(lambda: len(heard) > during + 10, "the new one serves")
    assert all_same(heard)
