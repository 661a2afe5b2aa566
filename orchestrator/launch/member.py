"""What is known of one process of a service."""

from dataclasses import dataclass
from typing import Final

from orchestrator.launch.plan import Child

NEVER: Final = float("inf")


@dataclass(slots=True)
class Member:
    """A child."""

    child: Child
    state: str = "waiting"
    start_at: float = NEVER
    pid: int = 0
    address: str = ""
    http: str = ""
    metrics: str = ""
    """Where it answers for its numbers alone, if it does."""
    grpc: str = ""
    health: str = ""
    deaths: int = 0
    ready_at: float = NEVER
    ever_ready: bool = False
    reason: str = ""
    """What it said when it failed."""
    kill_at: float = NEVER
    announced: bool = False
    """Whether the present process said an address."""
    leaving: bool = False
    """Whether it is not started again, and forgotten when it has ended."""

    @property
    def alive(self) -> bool:
        return self.state not in {"waiting", "ended"}


@dataclass(frozen=True, slots=True)
class Guest:
    """A node that somebody else keeps running, and where it is dialled."""

    name: str
    role: str
    address: str
