"""What must hold of an honest drafter after every turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drafter.mirror import Mirror
from tests.sim.breach import holds
from tests.sim.link_rules import check_quiet

if TYPE_CHECKING:
    from tests.sim.roles import DrafterPlace, VerifierPlace
    from tests.sim.world import World


def check_drafter(world: World, place: DrafterPlace) -> None:
    """After an honest drafter's turn."""
    core = place.core
    keys = set()
    for link, mirrors in core._mirrors.items():
        if not mirrors:
            continue
        holds(link in place.endpoint._links, place.address, "keeps mirrors without a link")
        verifier = world.verifiers[str(place.endpoint._links[link].peer)]
        for mirror in mirrors.values():
            keys.add(mirror.key)
            _mirror(place, mirror)
            _same_request(verifier, mirror)
    holds(keys == place.proposer.memories.keys(), place.address, "forgets or keeps draft KV")
    holds(len(keys) <= place.sketch.config.max_requests, place.address, len(keys), "mirrors")
    for link, news in core._outbox._news.items():
        open_ones = core._mirrors.get(link, {}).keys()
        holds(news.keys() <= open_ones, place.address, "has news of closed mirrors")
    links = place.endpoint._links.keys()
    holds(links >= set(core._outbox.links), place.address, "has news for links that are over")
    for verifier in world.verifiers.values():
        check_quiet(verifier, place)


def _mirror(place: DrafterPlace, mirror: Mirror) -> None:
    guesses = len(mirror.line) - mirror.base
    most = place.proposer.memories[mirror.key].most
    holds(0 <= guesses <= most, place.address, guesses, "guesses, granted", most)
    holds(most <= place.sketch.config.max_ahead, place.address, "granted", most)
    holds(len(mirror.confidences) == guesses, place.address, "confidences", mirror.confidences)
    holds(mirror.said <= len(mirror.line), place.address, "said more than there is")


def _same_request(place: VerifierPlace, mirror: Mirror) -> None:
    """What a mirror takes for committed is committed."""
    if not place.alive or mirror.link not in place.endpoint._links:
        return
    generation = place.core._generations.get(mirror.request)
    if generation is not None:
        holds(mirror.prompt == generation.submit.tokens, "mirror of another prompt", mirror.request)
        committed = generation.output.tokens[: mirror.base]
        holds(mirror.line[: mirror.base] == committed, "mirror", mirror.line, "not", committed)
