"""What happens to the children of a service, and what is to be done about it: values in and out of the supervisor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.launch.plan import Child


@dataclass(frozen=True, slots=True)
class Spawned:
    name: str
    pid: int


@dataclass(frozen=True, slots=True)
class Said:
    """A status line of a child."""

    name: str
    state: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exited:
    name: str
    code: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The first asks for an orderly end, the second for one at once."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A node that somebody else runs may be dialled at this address."""

    name: str
    role: str
    address: str


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """This node shall leave for good."""

    name: str


@dataclass(frozen=True, slots=True)
class ScaleAsked:
    """There shall be so many nodes of this role."""

    role: str
    count: int


Wish = Registered | DrainAsked | ScaleAsked
Event = Spawned | Said | Exited | Tick | StopAsked | Wish


@dataclass(frozen=True, slots=True)
class Spawn:
    child: Child


@dataclass(frozen=True, slots=True)
class Tell:
    """Write a line to the child's stdin."""

    name: str
    line: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kill:
    name: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How much is done of something that a child is at while it loads."""

    what: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Changed:
    """News for whoever watches; nothing needs to be done."""

    name: str
    state: str
    text: str = ""
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Over:
    """All children have ended. `code` is the service's exit code; if not 0, `text` says why.

    `name` is the child whose log may say more.
    """

    code: int
    text: str = ""
    name: str = ""


Action = Spawn | Tell | Kill | Changed | Over
