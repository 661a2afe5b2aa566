"""One history from its seed: storm, healing, the answers, a probe, rest."""

from collections import Counter
from dataclasses import dataclass

from tests import identities
from tests.sim.asks import Ask, State
from tests.sim.breach import Breach, holds
from tests.sim.faults import LATEST_COPY, brew, cover
from tests.sim.liar import Liar
from tests.sim.prefill_rules import rest
from tests.sim.roles import DrafterPlace, FrontPlace, PrefillPlace, VerifierPlace
from tests.sim.scenario import BEAT, Mode, probe
from tests.sim.trace import told
from tests.sim.verifier_rules import check_pages
from tests.sim.world import World

ANSWERS_WITHIN = 60.0
"""Seconds after the storm within which every request is answered."""
PROBE_WITHIN = 15.0
LONGEST_SILENCE = 1.8
LINKED_WITHIN = LATEST_COPY + 2 * LONGEST_SILENCE + 4 * BEAT
REST_WITHIN = LONGEST_SILENCE + 3 * BEAT
"""Seconds after the storm within which all links are whole: the last late copy came, then silence was noticed."""


def _rested(place: VerifierPlace) -> int:
    """Rounds without drafts because its planner would have none."""
    if not place.alive:
        return 0
    counted = place.core.facts().counters["plain_rounds"]
    return counted["rest"] + counted["waste"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a history was like."""

    turns: int
    asks: int
    failed: int
    states: frozenset[State]
    tokens: int
    accepted: int
    covered: Counter[str]


class History:
    """Runs a seed; whatever breaks is raised, and `told` tells what came before it."""

    def __init__(self, seed: int, remember: int | None = 300) -> None:
        self.world = World(seed, remember)

    def told(self) -> list[str]:
        return list(told(self.world.trace))

    def run(self) -> Summary:
        """The whole story, or a Breach."""
        world = self.world
        brew(world)
        world.run(world.scenario.storm)
        answered = world.run(world.scenario.storm + ANSWERS_WITHIN, self._answered)
        holds(answered, "not answered in time:", self._waiting())
        self._links()
        self._probe()
        self._calm_down()
        for place in world.places:
            cover(world, place)
        world.covered[f"{len(world.verifiers)} verifiers x {len(world.drafters)} drafters"] += 1
        world.covered[f"{len(world.prefill)} prefill nodes"] += 1
        world.covered[f"mode {world.scenario.mode}"] += 1
        asks = [ask for front in world.fronts.values() for ask in front.asks]
        return Summary(
            turns=world.turns,
            asks=len(asks),
            failed=sum(ask.state is State.FAILED for ask in asks),
            states=frozenset(ask.state for ask in asks),
            tokens=sum(len(heard.tokens) for ask in asks for heard in ask.heard.values()),
            accepted=sum(ask.accepted for ask in asks),
            covered=world.covered,
        )

    def _waiting(self) -> list[Ask]:
        return [ask for front in self.world.fronts.values() for ask in front.waiting]

    def _answered(self) -> bool:
        return not self._waiting()

    # --- after the storm --------------------------------------------------------------------------

    def _links(self) -> None:
        """All links that ought to be are there again."""
        world = self.world
        if not world.untouched:
            world.run(world.scenario.storm + LATEST_COPY)
        while not self._linked():
            holds(world.now < world.scenario.storm + LINKED_WITHIN, "links are missing")
            world.run(world.now + BEAT / 3)

    def _linked(self) -> bool:
        """Whether each verifier has a link with each of its peers, and no link lacks its other end."""
        world = self.world
        drafters = [each for each in world.drafters.values() if not each.gone]
        fronts = [each for each in world.fronts.values() if not each.gone]
        verifiers = [each for each in world.verifiers.values() if not each.gone]
        prefill = [each for each in world.prefill.values() if not each.gone]
        others: list[DrafterPlace | PrefillPlace | FrontPlace] = [*drafters, *prefill, *fronts]
        if not all(each.alive and not each.core.draining for each in verifiers):
            return False
        both: list[VerifierPlace | DrafterPlace | PrefillPlace | FrontPlace] = [*verifiers, *others]
        ends = {each.address: each.endpoint._links for each in both if each.alive}
        whole = all(
            link in ends.get(str(lane.peer), {})
            for links in ends.values()
            for link, lane in links.items()
        )
        return whole and all(
            other.alive and not ends[verifier.address].keys().isdisjoint(ends[other.address])
            for verifier in verifiers
            for other in others
        )

    def _probe(self) -> None:
        """A verifier that can reach a good drafter gets drafts accepted again."""
        world = self.world
        front = next(each for each in world.fronts.values() if each.alive)
        count = len(world.drafters) * len(world.verifiers) or 1
        probes = [
            Ask(probe(1000 + number, world.rng, world.chain.vocabulary), world.now)
            for number in range(count)
        ]
        world.note("probes")
        rested = {address: _rested(each) for address, each in world.verifiers.items()}
        front.client.spread(probes)
        world.run(world.now + PROBE_WITHIN, lambda: all(ask.over for ask in probes))
        for ask in probes:
            holds(ask.state is State.DONE, "probe", ask.submit.request, "is", ask.state)
        for verifier in world.verifiers.values():
            if any(self._helps(verifier, drafter) for drafter in world.drafters.values()):
                drafted = sum(a.accepted for a in probes if a.link in verifier.endpoint._links)
                chosen = _rested(verifier) > rested[verifier.address]
                holds(drafted or chosen, verifier.address, "accepts no drafts after the storm")

    @staticmethod
    def _helps(verifier: VerifierPlace, drafter: DrafterPlace) -> bool:
        """Whether one of as many probes as there are drafters must profit from this one."""
        config = drafter.sketch.config
        return (
            verifier.alive
            and verifier.config.planner.draft_length > 0
            and drafter.alive
            and drafter.honest
            and not drafter.core.draining
            and drafter.sketch.profile.accuracy == 1.0
            and not config.context
            and config.max_ahead >= 60
            and config.max_requests > 1000
            and drafter.sketch.profile.pace == 0.0
        )

    def _calm_down(self) -> None:
        """What is over is forgotten within a bound, and then only heartbeats are heard."""
        world = self.world
        until = world.now + REST_WITHIN
        while world.now < until and self._restless():
            world.run(world.now + BEAT / 2)
        frames, since = world.frames, world.now
        world.run(world.now + 2 * BEAT)
        ends = sum(len(each.node.endpoint._lanes) for each in world.places if each.node)
        if self._quiet():
            most = ends * (2 + (world.now - since) / BEAT)
            holds(world.frames - frames <= most, world.frames - frames, "frames at rest, not", most)
        self._rest()

    def _restless(self) -> bool:
        try:
            self._rest()
        except Breach:
            return True
        return False

    def _rest(self) -> None:
        """Nothing is left of what is over."""
        world = self.world
        for verifier in world.verifiers.values():
            if verifier.alive:
                self._rest_verifier(verifier)
        for drafter in world.drafters.values():
            if isinstance(drafter.node, Liar):
                holds(
                    not drafter.node.open,
                    drafter.address,
                    "was not told the end of",
                    drafter.node.open,
                )
            if drafter.alive and drafter.honest:
                holds(len(drafter.core) == 0, drafter.address, "keeps mirrors")
                holds(not drafter.core._hungry, drafter.address, "is hungry for nobody")
                holds(not drafter.core._outbox.links, drafter.address, "has something left to say")
        for prefill in world.prefill.values():
            if prefill.alive:
                rest(prefill)
        self._rest_links()

    def _quiet(self) -> bool:
        """Whether nobody is left who talks without a reason, and may fill an inbox by it."""
        return all(each.honest or not each.alive for each in self.world.drafters.values())

    def _rest_links(self) -> None:
        world, quiet = self.world, self._quiet()
        for place in world.places:
            if place.node is None:
                continue
            counters = place.node.endpoint.counters
            for lane in place.node.endpoint._lanes.values():
                kept = lane.held if quiet else None
                holds(not kept, place.address, "holds a frame for", lane.peer)
            if world.scenario.mode is Mode.CALM and world.untouched:
                bad = {
                    key: n for key, n in counters.items() if key not in {"links_up", "frames_held"}
                }
                holds(not bad, place.address, "counts", bad, "without faults")

    def _rest_verifier(self, place: VerifierPlace) -> None:
        core, calm = place.core, self.world.scenario.mode is Mode.CALM and self.world.untouched
        holds(core.idle and not core.fronts._choices, place.address, "is not idle")
        holds(
            not core.drafting.outbox.links, place.address, "has something left to say to drafters"
        )
        check_pages(place)
        wrong = identities.broken(core.facts())
        holds(not wrong, place.address, "counts what cannot be:", wrong)
        holds(core.scheduler.pool.free == core.scheduler.pool.pages, place.address, "keeps pages")
        drafters = self.world.drafters.values()
        if calm and all(each.honest and each.sketch.config.max_requests > 2 for each in drafters):
            slow = core.drafting.unbindings[
                "slow"
            ]  # of a drafter that dozed, so none that is counted below
            syncs = max(map(len, place.drafting.syncs.values()), default=0)
            holds(
                syncs <= 1 + slow, place.address, syncs, "DraftSyncs for one request without faults"
            )
            known = {"steps", "rows_cut", "rows_unknown_request"}
            if slow or any(each.sketch.config.context for each in drafters):
                known.add("rows_other_epoch")
            bad = {key: count for key, count in core.counters.items() if key not in known}
            holds(not bad, place.address, "counts", bad, "without faults")
