"""What must hold of links after every turn, and of both ends of a quiet one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drafter.mirror import Mirror
from protocol.link import Channel
from tests.sim.breach import holds
from tests.sim.places import Place
from verifier.generation import Generation
from verifier.hidden import known

if TYPE_CHECKING:
    from tests.sim.roles import DrafterPlace, VerifierPlace
    from tests.sim.world import World


def check_links(world: World, place: Place) -> None:
    """Link numbers are fresh, old frames are no signs of life, no side overruns its peer's window."""
    if place.node is None:
        return
    most = 0
    links = place.node.endpoint._links
    news = links.keys() - place.heard.keys()
    holds(news.isdisjoint(place.former), place.address, "has a link number again")
    holds(news <= world.numbers, place.address, "has a link that nobody drew")
    place.former |= news
    for lane in place.node.endpoint._lanes.values():
        channel = lane.side.channel
        if channel is not None:
            holds(len(channel.sizes) <= channel.window.frames, place.address, "overruns a window")
            most += channel.window.frames
            heard = (channel.read, channel.heard_at)
            read, at = place.heard.get(channel.link, heard)
            holds(read < channel.read or at == channel.heard_at, place.address, "hears old frames")
            place.heard[channel.link] = heard
    for link in place.heard.keys() - links.keys():
        del place.heard[link]
    holds(place.queued <= 300 + 6 * most, place.address, place.queued, "messages queued")


def check_quiet(verifier: VerifierPlace, drafter: DrafterPlace) -> None:
    """Where nothing is on its way or left to say, the verifier's lines are the mirrors."""
    if not (verifier.alive and drafter.alive and drafter.honest):
        return
    for link in _quiet_links(verifier, drafter):
        notes = verifier.core.drafting.outbox
        told = {
            each.id: each
            for each in verifier.core._generations.values()
            if each.binding and each.binding.drafter.link == link and each.binding.told is not None
        }
        mirrors = drafter.core._mirrors.get(link, {})
        if not notes._notes.get(link) and not drafter.core._outbox._notes.get(link):
            holds(
                mirrors.keys() == told.keys(),
                "quiet link:",
                list(mirrors),
                "mirrored of",
                list(told),
            )
        for request in mirrors.keys() & told.keys() - notes._news.get(link, {}).keys():
            mirror = mirrors[request]
            going = mirror in drafter.core._hungry or request in drafter.core._outbox._news.get(
                link, {}
            )
            if mirror.epoch == told[request].epoch and not (going and mirror.unsaid):
                _same_line(mirror, told[request])
            if mirror.epoch == told[request].epoch and drafter.proposer.needs:
                _same_rows(drafter, mirror, told[request])


def _same_rows(drafter: DrafterPlace, mirror: Mirror, generation: Generation) -> None:
    """All rows that are in the pages were sent, and all that were sent are there.

    Those of a prefix that was shared wait until the first of the choice's own tokens are computed.
    """
    assert generation.binding is not None
    sent = generation.binding.told_hidden
    got = drafter.proposer.memories[mirror.key].told
    where = f"quiet link, request {mirror.request}:"
    own = generation.sequence is not None and generation.sequence.computed > generation.cached
    holds(
        sent >= known(generation) or not own, where, "rows before", known(generation), "sent", sent
    )
    holds(got in {None, sent}, where, "rows before", sent, "sent, got", got)


def _same_line(mirror: Mirror, generation: Generation) -> None:
    binding = generation.binding
    assert binding is not None
    holds(not mirror.unsaid, f"quiet link, request {mirror.request}: not all is said")
    tail = binding.tail
    line = tail.final[: tail.agreed] + tail.ahead
    known = (
        binding.told if binding.held else tail.committed
    )  # one that rests is not told of commits
    drafted, answered = mirror.line, mirror.base
    if binding.held and tail.cut:  # rows that went on with the cut line were dropped, base and all
        drafted, answered = mirror.line[: tail.agreed], min(tail.base, mirror.base)
    holds(
        (line, known, tail.base) == (drafted, mirror.base, answered),
        f"quiet link, request {mirror.request}: tail {line} at {tail.committed} answered {tail.base},"
        f" mirror {mirror.line} at {mirror.base}",
    )


def _quiet_links(verifier: VerifierPlace, drafter: DrafterPlace) -> Iterator[int]:
    """Their common links on which every frame was read."""
    ours, theirs = verifier.endpoint._links, drafter.endpoint._links
    for link in ours.keys() & theirs.keys():
        one, other = ours[link], theirs[link]
        if one.held is None and other.held is None and _read(one.side.channel, other.side.channel):
            yield link


def _read(one: Channel | None, other: Channel | None) -> bool:
    return bool(one and other and one.sent == other.read and other.sent == one.read)
