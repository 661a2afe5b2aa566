"""Supervision as a pure state machine: what happened goes in, what must be done comes out.

A child is `waiting` (to be started at some time), `starting`, then what it says itself (`loading`, `ready`,
`draining`, `failed`), at last `ended`. A child that died is started again after a wait that doubles, at the address
that it had, so that its peers find it. A stop takes the roles one after the other, each within a bound.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from orchestrator.launch.events import (
    Action,
    Changed,
    DrainAsked,
    Event,
    Exited,
    Kill,
    Over,
    Progress,
    Registered,
    Said,
    ScaleAsked,
    Spawn,
    Spawned,
    StopAsked,
    Tell,
    Tick,
)
from orchestrator.launch.member import NEVER, Guest, Member
from orchestrator.launch.plan import DIALS, MODULES, Child, Spare, no_spare
from orchestrator.launch.wishes import grant
from protocol.quietly import VARIABLE

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
STEADY: Final = 30.0
"""Seconds of being ready after which earlier deaths are forgotten."""
ATTEMPTS: Final = 3
"""Deaths without a reason given that an essential child may die before it was ever ready."""
MARGIN: Final = 3.0
"""Seconds that a child has to end after its own bound on draining."""


class Supervisor:
    """All children of a service. `spare` makes one more drafter, by its number, where that can be had.

    `members` and `guests` are never changed but replaced: others may read them meanwhile.
    """

    def __init__(
        self,
        children: Iterable[Child],
        now: float,
        spare: Spare = no_spare,
    ) -> None:
        self.members = {child.name: Member(child, start_at=now) for child in children}
        self.guests: dict[str, Guest] = {}
        self.spare = spare
        self.stopping = False
        self.over = False
        self._verdict = Over(0)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take one event; the actions must be done in order."""
        match event:
            case Tick():
                pass
            case Spawned():
                member = self.members[event.name]
                member.pid = event.pid
                return self._peers_for(member) if member.child.role in DIALS else []
            case Said():
                return self._said(self.members[event.name], event, now)
            case Exited():
                return self._exited(self.members[event.name], event.code, now)
            case StopAsked():
                return self._asked_to_stop(now)
            case Registered() | DrainAsked() | ScaleAsked():
                return grant(self, event, now)
        return self._tick(now)

    @property
    def up(self) -> bool:
        """Whether everything is ready that is needed, and the rest is, too, or has failed at least once."""
        return all(
            member.state == "ready"
            or member.leaving
            or (member.deaths and not member.child.essential)
            for member in self.members.values()
        )

    def deadline(self) -> float:
        """When a `Tick` is due even if nothing happens."""
        times = [member.start_at for member in self.members.values() if member.state == "waiting"]
        times += [member.kill_at for member in self.members.values() if member.alive]
        return min(times, default=NEVER)

    def _tick(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for name, member in self.members.items():
            if member.state == "waiting" and now >= member.start_at:
                actions += self._start(member)
            elif member.alive and now >= member.kill_at:
                member.kill_at = NEVER
                actions.append(Kill(name))
        return actions

    def _start(self, member: Member) -> list[Action]:
        update: dict[str, Any] = {}
        if member.child.role == "front" and member.http:
            update["port"] = _port(member.http)
            if member.grpc:
                update["grpc_port"] = _port(member.grpc)
        elif member.address:
            update["bind"] = member.address
        if member.health:
            health = member.child.config.health
            update["health"] = health.model_copy(update={"port": _port(member.health)})
        config = member.child.config.model_copy(update=update)
        member.state, member.announced, member.reason = "starting", False, ""
        environment = member.child.environment
        if member.deaths and not member.child.essential:  # others serve meanwhile
            environment = {**environment, VARIABLE: "1"}
        child = replace(member.child, config=config, environment=environment)
        return [Spawn(child), Changed(child.name, "starting")]

    def _said(self, member: Member, said: Said, now: float) -> list[Action]:
        if self.stopping:
            return [Changed(member.child.name, said.state)]
        if not member.leaving:
            member.state = said.state
        detail = said.fields.get("detail")
        if said.state == "failed" and isinstance(detail, Mapping):
            member.reason = str(detail.get("error", ""))
        if said.state == "ready":
            member.ready_at, member.ever_ready = now, True
        changed = Changed(member.child.name, said.state, member.reason, _progress(said.fields))
        actions: list[Action] = [changed]
        for where in ("http", "metrics", "grpc", "health"):
            if isinstance(said.fields.get(where), str):
                setattr(member, where, said.fields[where])
        address = said.fields.get("address")
        if isinstance(address, str) and address:
            news = not member.announced or address != member.address
            member.address, member.announced = address, True
            if news:
                actions += self.publish(member.child.role)
        return actions

    def publish(self, role: str) -> list[Action]:
        """Whoever dials this role hears the whole list of addresses."""
        return [
            action
            for member in self.members.values()
            if role in DIALS.get(member.child.role, ()) and member.alive
            for action in self._peers_for(member)
        ]

    def _peers_for(self, member: Member) -> list[Action]:
        dialled = DIALS.get(member.child.role, ())
        peers = [
            each.address
            for each in self.members.values()
            if each.child.role in dialled and each.announced
        ]
        peers += [each.address for each in self.guests.values() if each.role in dialled]
        return [Tell(member.child.name, {"peers": peers})]

    def _exited(self, member: Member, code: int, now: float) -> list[Action]:
        how = member.reason or _how(code)
        member.pid, member.kill_at = 0, NEVER
        if self.stopping:
            member.state = "ended"
            return [Changed(member.child.name, "ended", how), *self._stop_next(now)]
        if member.leaving:
            return self._forget(member)
        if now - member.ready_at >= STEADY:
            member.deaths = 0
        member.deaths += 1
        member.ready_at = NEVER
        actions: list[Action] = []
        if member.announced:  # those who dial it need not wait for silence to tell them
            member.announced = False
            actions = self.publish(member.child.role)
        else:  # its former address may be what it could not get
            member.address = ""
        if self._hopeless(member):
            member.state = "ended"
            name = member.child.name
            text = f"{name} could not start: {how.rstrip('.')}."
            self._verdict = Over(1, text, "" if member.reason else name)
            return [Changed(member.child.name, "ended", how), *self._kill_all(now)]
        member.state = "waiting"
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (member.deaths - 1))
        member.start_at = now + wait
        actions.append(Changed(member.child.name, "waiting", f"{how}; starts again in {wait:g} s"))
        return actions

    @staticmethod
    def _hopeless(member: Member) -> bool:
        """A child without which nothing works, that never worked, and says why or died often."""
        if member.ever_ready or not member.child.essential:
            return False
        return bool(member.reason) or member.deaths >= ATTEMPTS

    # --- who comes and who goes ----------------------------------------------------------------------

    def admit(self, child: Child, now: float) -> list[Action]:
        """Start it, and keep it running."""
        member = Member(child, start_at=now)
        self.members = self.members | {child.name: member}
        return self._start(member)

    def retire(self, member: Member, now: float) -> list[Action]:
        """Drain it, and forget it when it has ended."""
        if member.leaving:
            return []
        member.leaving = True
        if not member.alive:
            return self._forget(member)
        return self._stop_member(member, now)

    def _forget(self, member: Member) -> list[Action]:
        name = member.child.name
        self.members = {each: there for each, there in self.members.items() if each != name}
        actions: list[Action] = [Changed(name, "ended")]
        return actions + (self.publish(member.child.role) if member.announced else [])

    # --- the end -----------------------------------------------------------------------------------------------------

    def _asked_to_stop(self, now: float) -> list[Action]:
        if self.stopping:
            return self._kill_all(now)
        self.stopping = True
        return self._stop_next(now)

    def _kill_all(self, now: float) -> list[Action]:
        self.stopping = True
        actions: list[Action] = []
        for name, member in self.members.items():
            if member.alive:
                member.state, member.kill_at = "stopping", NEVER
                actions.append(Kill(name))
            else:
                member.state = "ended"
        return actions or self._stop_next(now)

    def _stop_next(self, now: float) -> list[Action]:
        """The first role that still has members is told to end; the others wait for it."""
        for role in MODULES:
            members = [each for each in self.members.values() if each.child.role == role]
            actions = [action for each in members for action in self._stop_member(each, now)]
            if any(each.alive for each in members):
                return actions
        if self.over:
            return []
        self.over = True
        return [self._verdict]

    @staticmethod
    def _stop_member(member: Member, now: float) -> list[Action]:
        if not member.alive:
            member.state = "ended"
            return []
        if member.state == "stopping":
            return []
        drains = member.state in {"ready", "draining"}
        member.state = "stopping"
        if not drains:  # nobody relies on it yet, and it may be too busy loading to listen
            return [Kill(member.child.name)]
        member.kill_at = now + member.child.config.drain_seconds + MARGIN
        return [Tell(member.child.name, {"drain": True}), Changed(member.child.name, "draining")]


def _progress(fields: Mapping[str, Any]) -> Progress | None:
    match fields.get("progress"):
        case {"what": str(what), "done": int(done), "total": int(total)}:
            return Progress(what, done, total)
    return None


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
