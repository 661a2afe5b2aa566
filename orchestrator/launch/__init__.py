"""Launchers: who starts the processes of a service. A new one is one file and one line in the table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from orchestrator.config import Config
from orchestrator.launch.events import Changed, Over, Wish
from orchestrator.launch.plan import Child, Spare
from protocol.rundir import NodeState


class Service(Protocol):
    """A running service."""

    def wait_up(self, seconds: float | None = None) -> bool:
        """Block until all that is needed is ready (True), or until it is over or the time is (False)."""

    def wait(self, seconds: float | None = None) -> Over | None:
        """Block until it is over; None when the time is over first."""

    def stop(self) -> None:
        """The first call asks for an orderly end, the second for one at once. From any thread."""

    @property
    def name(self) -> str:
        """What commands call it."""

    @property
    def url(self) -> str:
        """Where clients are answered; empty until the front door is there."""

    @property
    def nodes(self) -> tuple[NodeState, ...]:
        """Its processes, and nodes of others that take part, as they are now."""

    def wish(self, wish: Wish) -> None:
        """Have it begun; a RefusedError if it cannot be had. From any thread."""

    def wait_for(self, true: Callable[[tuple[NodeState, ...]], bool], seconds: float) -> None:
        """Block until it is true of the nodes, or the service or the time is over."""

    def look_again(self) -> None:
        """Those who wait have other reasons now."""

    def obeys_at(self, address: str) -> None:
        """Tell those who look for this service where its launcher is asked for things."""


Watch = Callable[[Changed], None]
"""Hears what becomes of the processes; called from the service's own thread."""


def _local(children: Sequence[Child], watch: Watch, _config: Config, spare: Spare) -> Service:
    from orchestrator.launch.local import LocalService  # noqa: PLC0415  (only who launches pays)

    return LocalService(children, watch, spare=spare)


def _ray(children: Sequence[Child], watch: Watch, config: Config, spare: Spare) -> Service:
    from orchestrator.launch.local import LocalService  # noqa: PLC0415
    from orchestrator.launch.ray import RayStarter  # noqa: PLC0415

    return LocalService(children, watch, RayStarter(children, config), spare)


Launch = Callable[[Sequence[Child], Watch, Config, Spare], Service]

LAUNCHERS: Final[Mapping[str, Launch]] = {"local": _local, "ray": _ray}


def wanted(config: Config, environment: Mapping[str, str]) -> str:
    """The launcher's name: what was said, else ray where the environment names a cluster."""
    if "launcher" not in config.model_fields_set and environment.get("RAY_ADDRESS"):
        return "ray"
    return config.launcher
