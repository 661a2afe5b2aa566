"""Places in a Ray cluster: bundles of placement groups.

Those who are there when a service begins have one group, so that none of them runs unless all can. Ray cannot make a
group larger, so whoever comes later has one of its own, which goes with its process.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from orchestrator.launch.placement import STRATEGIES, Node, bundle, hinted, unplaceable
from orchestrator.launch.plan import Child
from orchestrator.ray_config import RayConfig
from orchestrator.settings import ConfigError

SLICE: Final = 1
"""Seconds of one wait for places: Ray listens to no signal meanwhile."""
NODE: Final = "ray.io/node-id"
"""The label that every node has."""


@dataclass(frozen=True)
class Seat:
    """One bundle. `number` is nobody else's in this service."""

    group: Any
    index: int
    number: int
    refusal: Callable[[], str]
    """Why it is not there, after the bound on waiting."""
    release: Callable[[], None]
    wait: float = 0
    """Seconds within which it must be there; 0: it is."""

    def missing(self, given_up: Callable[[], bool]) -> str:
        """Wait until it is there, or nobody wants it any more; else one sentence that says why it is not."""
        if self.wait == 0 or waited(self.group, self.wait, given_up) or given_up():
            return ""
        return self.refusal()


class Places:
    """All that a service holds of a cluster. ConfigError: the first group has no place within its bound."""

    def __init__(self, children: Sequence[Child], config: RayConfig) -> None:
        self._config = config
        self._numbers = {child.name: number for number, child in enumerate(children)}
        self._many = len(children)
        self._later: dict[Any, str] = {}  # groups of one, and where they should be
        self._first = placement_group(
            [dict(bundle(child, config)) for child in children],
            strategy=STRATEGIES[config.placement],
        )
        if not waited(self._first, config.wait, _never):
            remove_placement_group(self._first)
            raise ConfigError(f"{unplaceable(children, config, nodes(), config.wait)}.")

    def seat(self, child: Child) -> Seat:
        """The place of one process; one that comes later is looked for from now on, and waited for by itself."""
        number = self._numbers.setdefault(child.name, len(self._numbers))
        if number < self._many:
            return Seat(self._first, number, number, str, _nothing)
        taken = self._taken()
        shunned = sorted(set(taken)) if self._config.placement == "strict-spread" else []
        hint = hinted(child, self._config, nodes(), taken)
        group = placement_group(
            [dict(bundle(child, self._config))],
            strategy="STRICT_PACK",  # it is one: only this kind takes a hint
            _soft_target_node_id=hint or None,
            bundle_label_selector=[{NODE: f"!in({','.join(shunned)})"}] if shunned else None,
        )
        self._later[group] = hint
        wait = self._config.wait
        return Seat(
            group,
            0,
            number,
            lambda: unplaceable([child], self._config, nodes(), wait, beside=len(shunned)),
            lambda: self._release(group),
            wait,
        )

    def close(self) -> None:
        """Give all of it back."""
        for group in (self._first, *self._later):
            with suppress(ray.exceptions.RayError):
                remove_placement_group(group)

    def _release(self, group: Any) -> None:  # noqa: ANN401
        del self._later[group]
        with suppress(ray.exceptions.RayError):
            remove_placement_group(group)

    def _taken(self) -> Sequence[str]:
        """Living nodes that have bundles of ours, or shall have them, once for each."""
        alive = {node.id for node in nodes()}
        found = []
        for group, hint in ((self._first, ""), *self._later.items()):
            places = placement_group_table(group)["bundles_to_node_id"].values()
            living = [node for node in places if node in alive]
            found += living or [node for node in (hint,) if node in alive]
        return found


def waited(group: Any, seconds: float, given_up: Callable[[], bool]) -> bool:  # noqa: ANN401
    """Whether a group has its places within so many seconds, and before it is given up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not given_up():
        if group.wait(SLICE):
            return True
    return False


def nodes() -> list[Node]:
    """Those that live."""
    return [
        Node(each["NodeManagerAddress"], each["Resources"], each["NodeID"])
        for each in ray.nodes()
        if each["Alive"]
    ]


def _never() -> bool:
    return False


def _nothing() -> None:
    """It goes with the others of its group."""
