"""The chart's pods as processes, each in a network namespace of its own, found by name: no cluster, but nearly."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from tests.e2e import numbers
from tests.e2e.prompts import OUTPUT, prompt, wanted
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


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A model's folder, and the same model as `transformers` has it."""
    folder = tmp_path_factory.mktemp("model")
    return folder, write_byte_llama(folder, positions=4096)


@pytest.fixture
def cluster(tmp_path: Path, target: tuple[Path, Any]) -> Iterator[Cluster]:
    """A front door, a verifier, a prefill node and two drafters, with keys on the mesh and at the door."""
    KeyRing(tmp_path / "keys").new()
    secret = CliRunner().invoke(app, ["keys", "secret", "--folder", str(tmp_path / "keys")]).stdout
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "config": {
                    "target": str(target[0]),
                    "dtype": "float32",
                    "drafters": 2,
                    "prefill": 1,
                    "verifier": {"drain_seconds": PATIENCE, "handover": {"least": 64}},
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
        made.start("prefill", "dm-prefills-0")
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


def page(cluster: Cluster) -> str:
    return cluster.url().replace(":8000", ":9100")


def drafters(cluster: Cluster) -> set[str]:
    """Drafters that a verifier has a link with, as the front door's page of metrics tells."""
    text = httpx.get(f"{page(cluster)}/metrics", timeout=30).text
    trips = re.findall(r"^draftmesh_round_trip_seconds\{(.*)\}", text, flags=re.MULTILINE)
    peers = [re.search(r'peer="(dm-drafters-\d+)"', labels) for labels in trips]
    return {found[1] for found in peers if found}


def taken(cluster: Cluster) -> int:
    """Prompts that verifiers did not compute themselves."""
    counted = [facts.counters for facts in numbers.read(page(cluster)).values()]
    return sum(each.get("handovers", {}).get("taken", 0) for each in counted)


Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""An answer to a completion's body."""


@contextmanager
def visitors(cluster: Cluster, *each_does: Callable[[Ask], None]) -> Iterator[None]:
    """Clients that ask one question after the other until the end; what ended one of them early is raised then."""
    over = threading.Event()
    key = {"Authorization": f"Bearer {API_KEY}"}

    def visit(visitor: Callable[[Ask], None]) -> None:
        with httpx.Client(timeout=2 * PATIENCE, headers=key) as client:
            while not over.is_set():
                visitor(
                    lambda body: client.post(f"{cluster.url()}/v1/completions", json=body).json()
                )

    with ThreadPoolExecutor(len(each_does)) as pool:
        visits = [pool.submit(visit, each) for each in each_does]
        try:
            yield
        finally:
            over.set()
            for each in visits:
                each.result()


@contextmanager
def load(cluster: Cluster, *lengths: int) -> Iterator[list[dict[str, Any]]]:
    """Clients that ask the same, each for so many tokens; the list holds what they were told."""
    heard: list[dict[str, Any]] = []
    body = {"prompt": "one two one two one two", "temperature": 0, "ignore_eos": True}

    def visitor(tokens: int) -> Callable[[Ask], None]:
        return lambda ask: heard.append(ask({**body, "max_tokens": tokens}))

    with visitors(cluster, *map(visitor, lengths)):
        yield heard


@contextmanager
def fresh(cluster: Cluster) -> Iterator[list[tuple[list[int], dict[str, Any]]]]:
    """A client whose prompts are long, and nobody's cache has them; the list holds them with their answers."""
    heard: list[tuple[list[int], dict[str, Any]]] = []
    body = {"max_tokens": OUTPUT, "temperature": 0, "return_token_ids": True}

    def visitor(ask: Ask) -> None:
        asked = prompt(200, len(heard))
        heard.append((asked, ask({**body, "prompt": asked})))

    with visitors(cluster, visitor):
        yield heard


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


def test_a_rolling_restart_of_drafters_then_of_verifiers_then_of_prefill_nodes(
    cluster: Cluster, target: tuple[Path, Any]
) -> None:
    lengths = (60, 60, 1500, 1500)  # long ones outlive several lookups of names
    with load(cluster, *lengths) as heard, fresh(cluster) as computed:
        until(lambda: len(heard) > 10, "there is load")
        until(lambda: taken(cluster) > 2, "prompts come from the prefill node, over the network")
        assert cluster.roll("drafter") == [0, 0], "they end by themselves"
        until(lambda: len(drafters(cluster)) == 2, "both are found at new addresses")
        during = len(heard)
        assert cluster.roll_verifiers() == [0], "it ends when it has drained"
        until(lambda: len(heard) > during + 10, "the new one serves")
        until(lambda: taken(cluster) > 0, "and found the prefill node")
        during = len(computed)
        assert cluster.roll("prefill") == [0], "it ends when what it computes was taken"
        before = taken(cluster)
        until(lambda: taken(cluster) > before, "it is found at its new address")
        until(lambda: len(computed) > during + 2, "prompts go on")
    assert all_same(heard)
    for asked, answer in computed:
        assert answer["choices"][0]["token_ids"] == wanted(target[1], asked)
