"""What a launcher tells of its processes, and keeps of what they wrote."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from orchestrator.front.config import FrontConfig
from orchestrator.launch.member import Guest, Member
from orchestrator.launch.plan import Child
from protocol.rundir import NodeState
from protocol.spans import KEPT

LOG_TAIL: Final = 5  # lines that are shown of a child that could not start
LOGS_KEPT: Final = 20


def told(members: Iterable[Member], guests: Iterable[Guest]) -> tuple[NodeState, ...]:
    """What others read of them."""
    return (
        *(_member(member) for member in members),
        *(
            NodeState(each.name, each.role, address=each.address, state="registered")
            for each in guests
        ),
    )


def _member(member: Member) -> NodeState:
    child = member.child
    return NodeState(
        child.name,
        child.role,
        pid=member.pid,
        address=member.address,
        state=member.state,
        text=member.reason,
        threads=getattr(child.config, "threads", 1),
        health=member.health,
        model=_model(child),
    )


def _model(child: Child) -> str:
    """The last part of its folder: a hub's snapshot has a number there, so what is called by a name has that."""
    folder = None if child.role == "front" else child.config.model
    return folder.name if folder else ""


def metrics_page(front: FrontConfig, members: Iterable[Member]) -> str:
    """The page of numbers: on a port of its own, else on that of the API, else nowhere."""
    door = next((each for each in members if each.http), None)
    if door is None or not (door.metrics or front.metrics_open):
        return ""
    return f"{door.metrics or door.http}/metrics"


def kept(endpoint: str) -> str:
    """The folder that spans go to, if it is one."""
    return endpoint.removeprefix(KEPT) if endpoint.startswith(KEPT) else ""


def last_words(logs: Path, name: str) -> str:
    """The end of a child's log, as lines behind a sentence; nothing where there is none."""
    log = logs / f"{name}.log"
    if not name or not log.is_file():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(["", f"The end of {log}:", *(f"  {line}" for line in lines[-LOG_TAIL:])])


def sweep_logs(folder: Path) -> None:
    """Logs of services that failed are kept, but not for ever."""
    logs = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    for old in logs[:-LOGS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
