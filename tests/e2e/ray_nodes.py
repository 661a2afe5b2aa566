"""A real Ray cluster of several nodes on this machine, and what runs on which of them."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from tests.e2e.service import ROOT, Service

STORE: Final = 80 << 20
QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}


@contextmanager
def cluster(nodes: int = 3, cpus: int = 2) -> Iterator[Any]:
    """A head without cores and some nodes with some each; whoever starts a service meanwhile starts it there."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**QUIET, "PYTHONPATH": str(ROOT)}.items():
            environment.setenv(name, value)
        from ray.cluster_utils import Cluster  # noqa: PLC0415

        made = Cluster(initialize_head=True, head_node_args=_node(0))
        for _ in range(nodes):
            made.add_node(**_node(cpus))
        environment.setenv("RAY_ADDRESS", made.address)
        try:
            yield made
        finally:
            made.shutdown()


def _node(cpus: int) -> dict[str, Any]:
    return {"num_cpus": cpus, "object_store_memory": STORE, "include_dashboard": False}


def roles() -> dict[str, psutil.Process]:
    """Verifiers, prefill nodes and drafters that run because of this test, by name."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = " ".join(process.cmdline())
            said = re.search(r'"node_id":"((?:verifier|prefill|drafter)-\d+)"', words)
            if said and _test(process.environ()) == _test(os.environ):
                found[said[1]] = process
    return found


def _test(environment: Mapping[str, str]) -> str:
    """Processes inherit from the test that started the first of them."""
    return environment.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]


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


def texts(answers: list[dict[str, Any]]) -> set[str]:
    """What was answered; a KeyError if a request failed."""
    return {answer["choices"][0]["text"] for answer in answers}


def live(service: Service) -> float:
    """Drafters that the verifier has a link with."""
    page = httpx.get(f"{service.url}/metrics", timeout=30).text
    found = re.search(r"^draftmesh_drafters_live\{.*\} (\S+)$", page, flags=re.MULTILINE)
    return float(found[1]) if found else 0.0


def typed(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and stderr of one of our commands, said to the service whose folder this is."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stderr
