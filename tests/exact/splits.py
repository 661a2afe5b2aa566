"""Clusters with prefill nodes, and what became of their prompts."""

from collections.abc import Sequence
from typing import Any

from drafter.config import DrafterConfig
from tests.cluster import Cluster
from tests.exact.conftest import CHUNK, PAGE, Target
from tests.prefill import EAGER


def cluster(target: Target, drafters: Sequence[DrafterConfig] = (), **more: Any) -> Cluster:
    settings: dict[str, Any] = {
        "page_size": PAGE,
        "max_chunk": CHUNK,
        "prefill": {"p0": PAGE},
        "handover": EAGER,
    }
    return Cluster(target.folder, drafters, **settings | more)


def handed(made: Cluster, outcome: str) -> int:
    return made.core.facts().counters["handovers"][outcome]


def level(made: Cluster) -> None:
    """Nobody holds anything any more."""
    made.settle()
    assert made.pool.free == made.pool.pages
    assert not made.core.handover._asked
    for node in made.prefill.values():
        assert node.core.pool.free == node.core.pool.pages
        assert not node.core.prompts


def target_bytes(split: Cluster) -> int:
    """Of one position: layers, key and value, heads, numbers, bytes of a number."""
    model = split.engine.model
    return model.layers * 2 * model.kv_heads * model.head_dim * 4
