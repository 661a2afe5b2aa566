"""A service on a real Ray cluster of several nodes, on this machine."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e import ray_nodes
from tests.e2e.ray_nodes import live, load, node_of, roles, texts, typed
from tests.e2e.service import until, up
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_byte_llama(folder)
    return folder


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_nodes.cluster() as made:
        yield made


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
        assert len(texts(answers)) == 1, "no request failed, and no text changed"
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
    code, said = typed(tmp_path, "up", "--target", str(model), "--port", "0")
    assert code == 2, said
    assert "drafter-0 cannot be placed: no node has 3 CPU" in said


def test_without_a_cluster_one_is_made_and_ended(model: Path, tmp_path: Path) -> None:
    flags = ("--launcher", "ray", "--drafters", "1", "--dtype", "float32")
    with up(str(model), tmp_path, *flags) as service:
        assert roles().keys() == {"verifier-0", "drafter-0"}
        family = psutil.Process(service.process.pid).children(recursive=True)
        assert any("raylet" in process.name() for process in family)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
