"""Launchers: who starts the processes of a service. A new one is one file and one line in the table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

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


def _local(children: Sequence[Child], watch: Watch) -> Service:
    from orchestrator.launch.local import LocalService  # noqa: PLC0415  (only who launches pays)

    return LocalService(children, watch)


LAUNCHERS: Final[Mapping[str, Callable[[Sequence[Child], Watch], Service]]] = {"local": _local}
