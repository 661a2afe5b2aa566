"""Launchers: who starts the processes of a service. A new one is one file and one line in the table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from orchestrator.config import Config
from orchestrator.launch.events import Changed, Over
from orchestrator.launch.plan import Child


class Service(Protocol):
    """A running service."""

    def wait_up(self, seconds: float | None = None) -> bool:
        """Block until all that is needed is ready (True), or until it is over or the time is (False)."""

    def wait(self, seconds: float | None = None) -> Over | None:
        """Block until it is over; None when the time is over first."""

    def stop(self) -> None:
        """The first call asks for an orderly end, the second for one at once. From any thread."""

    @property
    def url(self) -> str:
        """Where clients are answered; empty until the front door is there."""


Watch = Callable[[Changed], None]
"""Hears what becomes of the processes; called from the service's own thread."""


def _local(children: Sequence[Child], watch: Watch, _config: Config) -> Service:
    from orchestrator.launch.local import LocalService  # noqa: PLC0415  (only who launches pays)

    return LocalService(children, watch)


def _ray(children: Sequence[Child], watch: Watch, config: Config) -> Service:
    from orchestrator.launch.local import LocalService  # noqa: PLC0415
    from orchestrator.launch.ray import RayStarter  # noqa: PLC0415

    return LocalService(children, watch, RayStarter(children, config))


Launch = Callable[[Sequence[Child], Watch, Config], Service]

LAUNCHERS: Final[Mapping[str, Launch]] = {"local": _local, "ray": _ray}


def wanted(config: Config, environment: Mapping[str, str]) -> str:
    """The launcher's name: what was said, else ray where the environment names a cluster."""
    if "launcher" not in config.model_fields_set and environment.get("RAY_ADDRESS"):
        return "ray"
    return config.launcher
