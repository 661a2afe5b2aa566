"""What is asked of Ray, and what is said when it cannot be had."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Config
from orchestrator.launch import wanted
from orchestrator.launch.placement import (
    Node,
    bound_at,
    bundle,
    fitted,
    hinted,
    placed,
    unplaceable,
)
from orchestrator.launch.plan import Child, children
from orchestrator.ray_config import RayConfig


def service(**settings: Any) -> list[Child]:
    """The processes that Ray places."""
    config = Config.model_validate(settings)
    made = children(config, Path("/target"), Path("/draft"), 2)
    return [child for child in made if placed(child)]


def test_the_front_door_stays_where_its_user_is() -> None:
    assert [child.name for child in service()] == ["verifier-0", "drafter-0", "drafter-1"]


def test_a_bundle_is_what_its_role_needs() -> None:
    verifier, drafter, _ = service()
    config = RayConfig(verifier_cpus=4, verifier_gpus=1, drafter_cpus=2)
    assert bundle(verifier, config) == {"CPU": 4, "GPU": 1}
    assert bundle(drafter, config) == {"CPU": 2}


def test_all_ranks_of_a_target_are_in_its_bundle() -> None:
    verifier, *_ = service(verifier={"tensor_parallel": 2})
    config = RayConfig(verifier_cpus=3, verifier_gpus=1)
    assert bundle(verifier, config) == {"CPU": 6, "GPU": 2}
    own: Any = fitted(verifier, config, 0)
    assert (own.config.threads, own.config.gpu_share) == (3, 0.95)


def test_a_process_uses_the_cores_of_its_bundle() -> None:
    verifier, drafter, _ = service(method="standalone")
    config = RayConfig(verifier_cpus=4, drafter_cpus=3)
    for number, (child, cores) in enumerate(((verifier, 4), (drafter, 3))):
        own: Any = fitted(child, config, number)
        assert own.config.threads == cores
        assert own.environment["OMP_NUM_THREADS"] == str(cores)
        assert "OMP_WAIT_POLICY" not in own.environment


def test_mesh_ports_are_numbered_if_a_first_one_is_said() -> None:
    config = RayConfig(first_port=7400)
    binds = [fitted(child, config, number).config for number, child in enumerate(service())]
    ports = [getattr(each, "bind", "").rpartition(":")[2] for each in binds]
    assert ports == ["7400", "7401", "7402"]


def test_a_mesh_that_is_watched_listens_to_other_machines() -> None:
    verifier, *_ = service(mesh={"insecure": True})
    own: Any = bound_at(fitted(verifier, RayConfig(first_port=7400), 0), "10.0.0.7")
    assert own.config.bind == "tcp://10.0.0.7:7400"
    six: Any = bound_at(verifier, "fd00::7")
    assert six.config.bind == "tcp://[fd00::7]:*"


def test_a_mesh_that_nobody_watches_stays_at_home() -> None:
    verifier, *_ = service()
    assert bound_at(verifier, "10.0.0.7") == verifier


NODES = [Node("10.0.0.1", {"CPU": 4}), Node("10.0.0.2", {"CPU": 2, "GPU": 1})]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            RayConfig(verifier_cpus=2, drafter_gpus=1, drafter_cpus=3),
            "drafter-0 cannot be placed: no node has 3 CPU, 1 GPU "
            "(there are 10.0.0.1: 4 CPU; 10.0.0.2: 2 CPU, 1 GPU)",
        ),
        (
            RayConfig(placement="strict-spread"),
            "drafter-1 cannot be placed: strict-spread needs 3 nodes, there are 2",
        ),
        (
            RayConfig(drafter_gpus=1),
            "drafter-1 cannot be placed: it and those before it need more than all nodes have "
            "together (6 CPU, 1 GPU)",
        ),
        (
            RayConfig(),
            "drafter-1 cannot be placed within 9 s: what the nodes have is in use by others "
            "(10.0.0.1: 4 CPU; 10.0.0.2: 2 CPU, 1 GPU)",
        ),
    ],
)
def test_the_process_without_a_place_is_named(config: RayConfig, said: str) -> None:
    assert unplaceable(service(), config, NODES, 9) == said


@pytest.mark.parametrize(
    ("settings", "environment", "name"),
    [
        ({}, {}, "local"),
        ({}, {"RAY_ADDRESS": "auto"}, "ray"),
        ({"launcher": "local"}, {"RAY_ADDRESS": "auto"}, "local"),
        ({"launcher": "ray"}, {}, "ray"),
    ],
)
def test_ray_is_used_when_it_is_asked_for(
    settings: dict[str, str], environment: dict[str, str], name: str
) -> None:
    assert wanted(Config.model_validate(settings), environment) == name


def test_a_prefill_node_needs_what_a_verifier_needs() -> None:
    node = service(prefill=1, drafters=1)[1]
    assert node.name == "prefill-0"
    config = RayConfig(verifier_cpus=3, verifier_gpus=0.5, first_port=7400)
    assert bundle(node, config) == {"CPU": 3, "GPU": 0.5}
    own: Any = fitted(node, config, 1).config
    assert (own.bind, own.threads) == ("tcp://127.0.0.1:7401", 3)


def test_one_that_comes_later_finds_nodes_taken_that_are_shared_with_nobody() -> None:
    late = service()[-1:]
    config = RayConfig(placement="strict-spread")
    assert unplaceable(late, config, NODES, 9, beside=2) == (
        "drafter-1 cannot be placed: strict-spread needs 3 nodes, there are 2"
    )
    shared = unplaceable(late, RayConfig(), NODES, 9, beside=0)
    assert shared.startswith("drafter-1 cannot be placed within 9 s")


@pytest.mark.parametrize(
    ("config", "node"),
    [
        (RayConfig(), "two"),
        (RayConfig(placement="pack"), "one"),
        (RayConfig(drafter_gpus=1), "two"),
        (RayConfig(drafter_cpus=4), "one"),
        (RayConfig(drafter_cpus=5), ""),
    ],
)
def test_one_that_comes_later_goes_where_fewest_are_or_most(config: RayConfig, node: str) -> None:
    there = [Node("", {"CPU": 4}, "one"), Node("", {"CPU": 2, "GPU": 1}, "two")]
    assert hinted(service()[-1], config, there, ["one", "two", "one"]) == node
