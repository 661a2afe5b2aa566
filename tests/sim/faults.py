"""The faults of a history: drawn from its seed, put on its calendar, and healed when the storm is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from protocol.process import Drain
from tests.sim.litter import litter
from tests.sim.scenario import BEAT, ROOMY, Mode
from tests.sim.weather import Disturbance, on_grid
from verifier.node import VerifierNode

if TYPE_CHECKING:
    from tests.sim.places import Place
    from tests.sim.roles import DrafterPlace, PrefillPlace, VerifierPlace
    from tests.sim.world import World

LATEST_COPY: Final = 0.7
"""No copy is later than this."""


def brew(world: World) -> None:
    """Put this history's faults on its calendar."""
    scenario, rng = world.scenario, world.rng
    world.at(scenario.storm, partial(heal, world))
    for front in world.fronts.values():
        if rng.random() < 0.2:
            world.at(rng.uniform(0, scenario.storm), partial(_clear_caches, world, front.address))
    kinds = _KINDS[scenario.mode]
    moments = [rng.uniform(0.02, 0.9 * scenario.storm) for _ in range(rng.randint(3, 9))]
    if rng.random() < 0.25:  # several faults in one moment
        moments = [rng.choice(moments[:2]) for _ in moments]
    for moment in moments:
        world.at(moment, partial(_happen, world, rng.choice(kinds)))
    if scenario.prefill and scenario.mode is not Mode.CALM:
        for _ in range(rng.randint(0, 6)):
            moment = rng.uniform(0.02, 0.9 * scenario.storm)
            world.at(moment, partial(_happen, world, rng.choice(_OF_PREFILL)))


def _happen(world: World, kind: Callable[[World], None]) -> None:
    name = kind.func.__name__ if isinstance(kind, partial) else kind.__name__
    world.covered[f"fault {name.strip('_')}"] += 1
    kind(world)


def cover(world: World, place: Place) -> None:
    """Note what this life of a node went through."""
    if place.node is None:
        return
    found: Counter[str] = Counter()
    for key, count in place.node.endpoint.counters.items():
        found[key.replace("_", " ")] += count
    if isinstance(place.node, VerifierNode):
        core = place.node.core
        found += Counter({f"unbound: {why}": n for why, n in core.drafting.unbindings.items()})
        found["preempted"] = core.scheduler.preemptions
        names = ("plain_rounds", "refused_by_drafters", "stale_rows", "requests_ended", "handovers")
        for name in names:
            for why, count in core.facts().counters[name].items():
                found[f"{name.replace('_', ' ')}: {why}"] += count
    world.covered += found


def heal(world: World) -> None:
    """The storm is over: what can come back does, and all lists are whole again."""
    world.note("healed")
    world.weather.clear()
    for place in world.places:
        place.frozen_until = 0.0
        if not place.alive and not place.gone:
            place.start()
    for verifier in world.verifiers.values():
        verifier.dial((*world.drafters, *world.prefill))


def _clear_caches(world: World, address: str) -> None:
    if world.fronts[address].alive:
        world.fronts[address].client.clear_caches()


# --- the way of messages ------------------------------------------------------------------------------


def _disturb_speculation(world: World) -> None:
    """Something happens to the messages between a verifier and a drafter, one way or both."""
    rng = world.rng
    if world.drafters:
        one, other = rng.choice(list(world.verifiers)), rng.choice(list(world.drafters))
        _disturb(world, *((one, other) if rng.random() < 0.5 else (other, one)))


def _disturb_handover(world: World) -> None:
    """Something happens to the messages between a verifier and a prefill node, one way or both."""
    rng = world.rng
    one, other = rng.choice(list(world.verifiers)), rng.choice(list(world.prefill))
    _disturb(world, *((one, other) if rng.random() < 0.5 else (other, one)))


def _give_up(world: World) -> None:
    """A prefill node will not go on with a prompt; its verifier is told."""
    place = _some_prefill(world)
    if place is not None and place.core.prompts:
        prompt = world.rng.choice(list(place.core.prompts.values()))
        job = prompt.job
        world.note(f"{place.address} gives up request {job.offer.request}")
        place.core._notes[job.link].append(place.core._giving.drop(job, "planned"))
        place.core._forget(job, "aborted", world.now)
        place.busy()


def _disturb_anything(world: World) -> None:
    """Something happens to whatever a verifier says or hears."""
    rng = world.rng
    one = rng.choice(list(world.verifiers))
    other = rng.choice([None, *world.drafters, *world.fronts])
    _disturb(world, *((one, other) if rng.random() < 0.5 else (other, one)))


def _disturb(world: World, source: str | None, target: str | None) -> None:
    rng = world.rng
    until = min(world.now + rng.uniform(0.2, 1.5), world.scenario.storm)
    disturbance = Disturbance(source, target, until)
    match rng.randrange(7):
        case 0:
            disturbance.loss = rng.choice((0.1, 0.3, 1.0))
        case 1:
            disturbance.twice = rng.choice((0.2, 1.0))
        case 2:
            disturbance.late = rng.choice((0.2, 1.0))
            disturbance.late_by = rng.choice((0.05, 0.2, LATEST_COPY))
        case 3:
            disturbance.jitter = rng.choice((0.01, 0.1))
        case 4:
            disturbance.slow = rng.choice((0.01, 0.1))
        case 5:
            disturbance.held = True
        case _:
            disturbance.loss = disturbance.twice = disturbance.late = 0.1
            disturbance.late_by, disturbance.jitter = 0.2, 0.01
    world.note(f"from now on: {disturbance}")
    world.weather.disturb(disturbance)
    if source is not None and target is not None:
        world.taint(source, target)
    else:
        world.taint(source or target or "")


# --- nodes ----------------------------------------------------------------------------------------------


def _some_drafter(world: World) -> DrafterPlace | None:
    living = [place for place in world.drafters.values() if place.alive]
    return world.rng.choice(living) if living else None


def _some_prefill(world: World) -> PrefillPlace | None:
    living = [place for place in world.prefill.values() if place.alive]
    return world.rng.choice(living) if living else None


def _some_node(world: World) -> Place | None:
    living = [place for place in world.places if place.alive]
    return world.rng.choice(living) if living else None


def _doze(world: World) -> None:
    """A node does nothing for a while, once, and not for so long that anybody may hang up."""
    silences = {address: links.silence for address, links in world.scenario.links.items()}
    place = _some_node(world)
    if world.scenario.bound < ROOMY:  # whoever fills its inbox silences all others
        return
    if place is None or world.dozed or silences[place.address] > min(silences.values()):
        return
    patience = min(
        links.silence for address, links in world.scenario.links.items() if address != place.address
    )
    seconds = world.rng.uniform(0.5, 0.98) * (patience - BEAT - 0.3)
    world.dozed = True
    world.note(f"{place.address} dozes for {seconds:.3f}")
    place.frozen_until = world.now + seconds


def _freeze(world: World, pick: Callable[[World], Place | None]) -> None:
    place = pick(world)
    if place is not None:
        world.taint(place.address)
        place.frozen_until = world.now + world.rng.uniform(0.05, 3.0)
        world.note(f"{place.address} is frozen until {place.frozen_until:.3f}")


def _crash(world: World, pick: Callable[[World], Place | None]) -> None:
    place = pick(world)
    if place is None:
        return
    cover(world, place)
    rng, queued = world.rng, world.rng.random() < 0.5
    world.taint(place.address)
    place.stop(queued=queued)
    place.gone = rng.random() < 0.25 and _spare(world, place)
    back = world.now + rng.choice((0.0, rng.uniform(0.0, 2.0)))
    world.note(f"{place.address} crashed, {'for good' if place.gone else f'until {back:.3f}'}")
    world.at(back, partial(_return, world, place, queued=queued))


def _return(world: World, place: Place, *, queued: bool) -> None:
    if not place.alive and not place.gone:
        world.note(f"{place.address} is back, {'with' if queued else 'without'} its queue")
        place.frozen_until = 0.0
        place.start(queued=queued)


def _spare(world: World, place: Place) -> bool:
    """Whether the story can go on without this place."""
    if place.address in world.drafters or place.address in world.prefill:
        return True
    kin = [*(world.verifiers if place.address in world.verifiers else world.fronts).values()]
    return sum(not each.gone for each in kin) > 1


def _drain(world: World, pick: Callable[[World], Place | None]) -> None:
    place = pick(world)
    if place is not None and place.address not in world.fronts and place.node is not None:
        world.note(f"{place.address} drains")
        world.taint(place.address)
        place.node.command(Drain())


def _jump(world: World) -> None:
    """A machine slept: its clock jumps, and nothing else of it moved meanwhile."""
    places: list[VerifierPlace | DrafterPlace] = [
        *world.verifiers.values(),
        *world.drafters.values(),
    ]
    place = world.rng.choice(places)
    seconds = on_grid(world.rng.choice((world.rng.uniform(0.05, 0.8), world.rng.uniform(0.8, 5.0))))
    world.note(f"the clock of {place.address} jumps by {seconds:.3f}")
    world.taint(place.address)
    place.skew += seconds


def _move(world: World) -> None:
    """A drafter is taken off a verifier's list, and put back later."""
    if not world.drafters:
        return
    verifier: VerifierPlace = world.rng.choice(list(world.verifiers.values()))
    address = world.rng.choice(list(world.drafters))
    world.note(f"{verifier.address} no longer dials {address}")
    world.taint(verifier.address, address)
    verifier.dial(tuple(each for each in verifier.peers if each != address))
    back = world.now + world.rng.choice((0.0, 0.001, 0.05, 0.5))
    world.at(back, partial(_move_back, world, verifier, address))


def _move_back(world: World, verifier: VerifierPlace, address: str) -> None:
    if address not in verifier.peers:
        world.note(f"{verifier.address} dials {address} again")
        verifier.dial((*verifier.peers, address))


_OF_PREFILL: Final[tuple[Callable[[World], None], ...]] = (
    *[_disturb_handover] * 3,
    *[_give_up] * 3,
    partial(_freeze, pick=_some_prefill),
    partial(_crash, pick=_some_prefill),
    partial(_drain, pick=_some_prefill),
)
_KINDS: Final[dict[Mode, tuple[Callable[[World], None], ...]]] = {
    Mode.CALM: (_doze,),
    Mode.GENTLE: (
        *[_disturb_speculation] * 4,
        partial(_freeze, pick=_some_drafter),
        partial(_crash, pick=_some_drafter),
        partial(_drain, pick=_some_drafter),
        _move,
        *[litter] * 2,
    ),
    Mode.WILD: (
        *[_disturb_speculation] * 3,
        *[_disturb_anything] * 3,
        *[partial(_freeze, pick=_some_node)] * 2,
        *[partial(_crash, pick=_some_node)] * 2,
        partial(_drain, pick=_some_node),
        _move,
        _jump,
        *[litter] * 2,
    ),
}
