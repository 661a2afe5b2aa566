"""What a service asks of Ray: one bundle for each verifier, prefill node and drafter. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drafter.config import DrafterConfig
from orchestrator.gpus import ROOM
from orchestrator.launch.plan import Child
from orchestrator.launch.threads import LIGHT
from orchestrator.ray_config import RayConfig
from verifier.config import VerifierConfig

STRATEGIES: Final[Mapping[str, str]] = {
    "spread": "SPREAD",
    "pack": "PACK",
    "strict-spread": "STRICT_SPREAD",
}

Bundle = Mapping[str, float]


@dataclass(frozen=True)
class Node:
    """A living node of the cluster: its address, and all that it has, whoever uses it now."""

    address: str
    resources: Mapping[str, float]
    id: str = ""


def placed(child: Child) -> bool:
    """Whether Ray decides where it runs; the front door stays where the user looks for it."""
    return child.role != "front"


def bundle(child: Child, config: RayConfig) -> Bundle:
    """What one process needs, with all its ranks: they stay on one node."""
    part = child.config
    if isinstance(part, VerifierConfig):
        cpus = config.verifier_cpus * part.tensor_parallel
        gpus = config.verifier_gpus * part.tensor_parallel
    else:
        cpus, gpus = config.drafter_cpus, config.drafter_gpus
    return {"CPU": float(cpus), **({"GPU": float(gpus)} if gpus else {})}


def fitted(child: Child, config: RayConfig, number: int) -> Child:
    """The process with as many threads as its bundle has cores, and with its own mesh port if ports are numbered."""
    part = child.config
    if not isinstance(part, VerifierConfig | DrafterConfig):
        return child
    changed: dict[str, object] = {}
    if config.first_port:
        changed["bind"] = f"tcp://127.0.0.1:{config.first_port + number}"
    light = isinstance(part, DrafterConfig) and part.method in LIGHT
    ranks = part.tensor_parallel if isinstance(part, VerifierConfig) else 1
    threads = 1 if light else int(bundle(child, config)["CPU"]) // ranks
    changed["threads"] = threads
    if gpus := bundle(child, config).get("GPU"):  # Ray shows the process its GPU alone
        changed["device"] = "cuda"
        changed["gpu_share"] = min(gpus / ranks, ROOM)
    environment = {**child.environment, "OMP_NUM_THREADS": str(threads)}
    for spinning in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):  # the cores are its own
        environment.pop(spinning, None)
    return replace(child, config=part.model_copy(update=changed), environment=environment)


def bound_at(child: Child, address: str) -> Child:
    """The process as its node runs it: its mesh is open to other nodes if it may be, with keys or without."""
    part = child.config
    if not isinstance(part, VerifierConfig | DrafterConfig):
        return child
    if not (part.mesh.keys or part.mesh.insecure):
        return child
    shown = f"[{address}]" if ":" in address else address
    port = part.bind.rpartition(":")[2]
    return replace(child, config=part.model_copy(update={"bind": f"tcp://{shown}:{port}"}))


def hinted(child: Child, config: RayConfig, nodes: Sequence[Node], taken: Sequence[str]) -> str:
    """The node that one that comes later should have if it can, empty: any.

    `taken` are nodes of its service, one entry a process: with most of them where they are packed, else with fewest.
    """
    fitting = [node for node in nodes if _fits(bundle(child, config), node)]
    if not fitting:
        return ""
    choose = max if config.placement == "pack" else min
    return choose(fitting, key=lambda node: taken.count(node.id)).id


def unplaceable(
    children: Sequence[Child],
    config: RayConfig,
    nodes: Sequence[Node],
    seconds: float,
    *,
    beside: int = 0,
) -> str:
    """One sentence: which process has no place, and why, as far as it can be seen.

    `beside` nodes have one of ours already and take no other.
    """
    for child in children:
        wants = bundle(child, config)
        if not any(_fits(wants, node) for node in nodes):
            return f"{child.name} cannot be placed: no node has {_shown(wants)} (there are {_all(nodes)})"
    wanted = beside + len(children)
    if config.placement == "strict-spread" and wanted > len(nodes):
        name = children[len(nodes) - beside].name
        return (
            f"{name} cannot be placed: strict-spread needs {wanted} nodes, there are {len(nodes)}"
        )
    total = {key: sum(node.resources.get(key, 0) for node in nodes) for key in ("CPU", "GPU")}
    left = dict(total)
    for child in children:
        wants = bundle(child, config)
        for key, value in wants.items():
            left[key] = left.get(key, 0) - value
        if min(left[key] for key in wants) < 0:
            return (
                f"{child.name} cannot be placed: it and those before it need more than all nodes "
                f"have together ({_shown(total)})"
            )
    return (
        f"{children[-1].name} cannot be placed within {seconds:g} s: what the nodes have is in use "
        f"by others ({_all(nodes)})"
    )


def _fits(wants: Bundle, node: Node) -> bool:
    return all(node.resources.get(key, 0) >= value for key, value in wants.items())


def _shown(resources: Bundle) -> str:
    return ", ".join(f"{value:g} {key}" for key, value in resources.items() if value)


def _all(nodes: Sequence[Node]) -> str:
    parts = [
        f"{node.address}: {_shown({key: node.resources.get(key, 0) for key in ('CPU', 'GPU')}) or 'nothing'}"
        for node in nodes
    ]
    return "; ".join(parts) or "no nodes"
