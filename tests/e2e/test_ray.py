"""A service on a real Ray cluster of several nodes, on this machine."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from tests.e2e.service import ROOT, Service, until, up
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

STORE: Final = 80 << 20
QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_byte_llama(folder)
    return folder


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without cores and three nodes with two each."""
    for name, value in {**QUIET, "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    made = Cluster(initialize_head=True, head_node_args=_node(0))
    for _ in range(3):
        made.add_node(**_node(2))
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    made.shutdown()


def _node(cpus: int) -> dict[str, Any]:
    return {"num_cpus": cpus, "object_store_memory": STORE, "include_dashboard": False}


def roles() -> dict[str, psutil.Process]:
    """Verifiers and drafters that run, by name."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            said = re.search(r'"node_id":"((?:verifier|drafter)-\d+)"', " ".join(process.cmdline()))
            if said and process.status() != psutil.STATUS_ZOMBIE:
                found[said[1]] = process
    return found


def node_of(process: psutil.Process, cluster: Any) -> Any:  # noqa: ANN401
    """The node of the cluster that a process runs on."""
    above = {parent.pid for parent in process.parents()}
    for node in cluster.list_all_nodes():
        if any(each.process.pid in above for each in node.all_processes.get("raylet", ())):
            return node
    return None


@contextmanager
def load(service: Service) -> Iterator[list[dict[str, Any]]]:
    """Requests one after the other while the block runs; the list holds the answers."""
    answers: list[dict[str, Any]] = []
    over = threading.Event()
    body = {"prompt": "one two one two one two", "max_tokens": 30, "temperature": 0}

    def ask() -> None:
        with httpx.Client(timeout=120) as client:
            while not over.is_set():
                answers.append(client.post(f"{service.url}/v1/completions", json=body).json())

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


def live(service: Service) -> float:
    """Drafters that the verifier has a link with."""
    page = httpx.get(f"{service.url}/metrics", timeout=30).text
    found = re.search(r"^draftmesh_drafters_live\{.*\} (\S+)$", page, flags=re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_node_is_lost_and_its_drafters_come_back_elsewhere(
    cluster: Any,  # noqa: ANN401
    model: Path,
    tmp_path: Path,
) -> None:
    with up(str(model), tmp_path, "--drafters", "2", "--dtype", "float32") as service:
        until(lambda: live(service) == 2, "both drafters have a link")
        before = roles()
        where = {name: node_of(process, cluster) for name, process in before.items()}
        assert len({id(node) for node in where.values()}) == 3, "spread over the nodes"
        with load(service) as answers:
            until(lambda: len(answers) > 3, "requests are answered")
            cluster.remove_node(where["drafter-0"], allow_graceful=False)
            until(lambda: not before["drafter-0"].is_running(), "the drafter went with its node")
            until(
                lambda: "drafter-0" in roles() and live(service) == 2, "it is back on another node"
            )
            count = len(answers)
            until(lambda: len(answers) > count + 3, "requests go on")
        after = roles()
        assert node_of(after["drafter-0"], cluster) in cluster.list_all_nodes()
        assert after["verifier-0"].pid == before["verifier-0"].pid
        texts = {answer["choices"][0]["text"] for answer in answers}
        assert len(texts) == 1, "no request failed, and no text changed"
    until(lambda: not roles(), "nothing is left after an orderly end")


def test_a_driver_that_is_killed_leaves_nothing(
    cluster: Any,  # noqa: ANN401
    model: Path,
    tmp_path: Path,
) -> None:
    with up(str(model), tmp_path, "--drafters", "1", "--dtype", "float32") as service:
        assert roles().keys() == {"verifier-0", "drafter-0"}
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        until(lambda: not roles(), "its processes went with it")
    assert len(cluster.list_all_nodes()) == 4, "the cluster is not ours to end"


def test_a_driver_that_is_killed_takes_its_own_cluster_along(model: Path, tmp_path: Path) -> None:
    flags = ("--launcher", "ray", "--drafters", "1", "--dtype", "float32")
    with up(str(model), tmp_path, *flags) as service:
        family = psutil.Process(service.process.pid).children(recursive=True)
        assert any("raylet" in process.name() for process in family)
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        _, alive = psutil.wait_procs(family, timeout=120)  # two agents of Ray take up to a minute
        assert not alive


def test_what_has_no_place_is_named_within_the_bound(
    cluster: Any,  # noqa: ANN401
    model: Path,
    tmp_path: Path,
) -> None:
    assert cluster.list_all_nodes()
    (tmp_path / "draftmesh.yaml").write_text("ray: {wait: 3, drafter_cpus: 3}\n")
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "up", "--target", str(model), "--port", "0"],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert "drafter-0 cannot be placed: no node has 3 CPU" in done.stderr


def test_without_a_cluster_one_is_made_and_ended(model: Path, tmp_path: Path) -> None:
    flags = ("--launcher", "ray", "--drafters", "1", "--dtype", "float32")
    with up(str(model), tmp_path, *flags) as service:
        assert roles().keys() == {"verifier-0", "drafter-0"}
        family = psutil.Process(service.process.pid).children(recursive=True)
        assert any("raylet" in process.name() for process in family)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
