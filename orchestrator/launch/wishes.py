"""What an operator may ask of a running service, and what that means for its processes. Pure.

A wish that cannot be had is refused before anything is changed.
"""

from collections.abc import Iterable
from itertools import count, islice
from typing import Final, Protocol

from orchestrator.launch.events import Action, Changed, DrainAsked, Registered, ScaleAsked, Wish
from orchestrator.launch.member import Guest, Member
from orchestrator.launch.plan import DIALS, Child, Spare

MOST: Final = 256
"""Drafters of a service at most, as in its configuration."""


class RefusedError(Exception):
    """A wish that cannot be had; `field` is what is wrong with it, empty: it is not the wish."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.field = field


class Household(Protocol):
    """The supervisor as wishes see it."""

    members: dict[str, Member]
    guests: dict[str, Guest]
    stopping: bool

    spare: Spare

    def admit(self, child: Child, now: float) -> list[Action]:
        """Start it, and keep it running."""

    def retire(self, member: Member, now: float) -> list[Action]:
        """Drain it, and forget it when it has ended."""

    def publish(self, role: str) -> list[Action]:
        """Whoever dials this role hears the whole list of addresses."""


def grant(house: Household, wish: Wish, now: float) -> list[Action]:
    """What must be done; a RefusedError says why not."""
    if house.stopping:
        raise RefusedError("the service is stopping")
    match wish:
        case Registered():
            return _register(house, wish)
        case DrainAsked():
            return _drain(house, wish.name, now)
        case ScaleAsked():
            return _scale(house, wish, now)


def _register(house: Household, wish: Registered) -> list[Action]:
    dialled = [role for roles in DIALS.values() for role in roles]
    if wish.role not in dialled:
        text = f"a {wish.role or 'node without a role'} is not dialled; {_or(dialled)} is"
        raise RefusedError(text, "role")
    if not wish.name:
        raise RefusedError("the node has no name", "node_id")
    if wish.name in house.members:
        raise RefusedError(f"{wish.name} is a process of this service", "node_id")
    if not wish.address.startswith(("tcp://", "ipc://")):
        text = f"{wish.address!r} is no address of the mesh, such as tcp://10.0.0.7:7400"
        raise RefusedError(text, "address")
    house.guests = house.guests | {wish.name: Guest(wish.name, wish.role, wish.address)}
    return [*house.publish(wish.role), Changed(wish.name, "registered")]


def _drain(house: Household, name: str, now: float) -> list[Action]:
    if guest := house.guests.get(name):
        house.guests = {each: there for each, there in house.guests.items() if each != name}
        return [*house.publish(guest.role), Changed(name, "ended")]
    member = house.members.get(name)
    if member is None:
        known = _or([*house.members, *house.guests])
        raise RefusedError(f"there is no node {name!r}, only {known}", "node_id")
    others = [each for each in _staying(house, member.child.role) if each is not member]
    if member.child.essential and not any(each.state == "ready" for each in others):
        raise RefusedError(f"without {name} nothing would be answered; `down` ends the service")
    return house.retire(member, now)


def _scale(house: Household, wish: ScaleAsked, now: float) -> list[Action]:
    if wish.role != "drafter":
        raise RefusedError(f"only drafters come and go, not {wish.role or 'nothing'}", "role")
    if not 0 <= wish.count <= MOST:
        raise RefusedError(f"{wish.count} drafters are not 0 to {MOST}", "count")
    there = _staying(house, wish.role)
    free = (number for number in count() if f"drafter-{number}" not in house.members)
    wanted = islice(free, max(0, wish.count - len(there)))
    children = [child for number in wanted if (child := house.spare(number))]
    if len(there) + len(children) < wish.count:
        raise RefusedError("whoever started this service can add no process to it", "count")
    actions = [action for each in there[wish.count :] for action in house.retire(each, now)]
    return actions + [action for child in children for action in house.admit(child, now)]


def _staying(house: Household, role: str) -> list[Member]:
    return [each for each in house.members.values() if each.child.role == role and not each.leaving]


def _or(words: Iterable[str]) -> str:
    return " or ".join(sorted(set(words)))
