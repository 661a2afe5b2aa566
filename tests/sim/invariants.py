"""What must hold after every turn, whatever happened before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drafter.mirror import Mirror
from protocol.link import Channel
from tests.sim.breach import Breach
from tests.sim.places import Place
from verifier.generation import Generation
from verifier.step import Step

if TYPE_CHECKING:
    from tests.sim.roles import DrafterPlace, VerifierPlace
    from tests.sim.world import World


def holds(condition: object, *words: object) -> None:
    """A breach with these words unless the condition is true."""
    if not condition:
        raise Breach(" ".join(map(str, words)))


# --- verifiers --------------------------------------------------------------------------------------


def watch_step(world: World, place: VerifierPlace, step: Step) -> None:
    """Before a step runs: its rows are the lines they claim to be, and no guess stands where it was not drafted."""
    core = place.core
    generations = core._generations
    place.decoding = {each.id: len(each.output.tokens) for each in core.scheduler.running if each.todo == 1}
    rows = {row.request: row for row in step.rows}
    holds(len(rows) == len(step.rows), place.address, "two rows for one request")
    holds(place.decoding.keys() <= rows.keys(), place.address, "left out of a step", rows.keys())
    for row in step.rows:
        generation = generations[row.request]
        assert generation.sequence is not None
        final, guesses = row.tokens[: len(row.tokens) - row.drafts], row.tokens[len(row.tokens) - row.drafts :]
        line = tuple(generation.line[row.start : row.start + len(final)])
        holds(final == line and row.start == generation.sequence.computed, place.address, "row", row)
        if row.drafts:
            binding = generation.binding
            holds(binding, place.address, "drafts without a drafter")
            assert binding is not None
            limit = min(place.config.planner.draft_length, generation.output.room - 1)
            holds(row.drafts <= limit, place.address, row.drafts, "drafts, limit", limit)
            holds(list(guesses) == binding.tail.ahead[: row.drafts], place.address, "not its tail")
            _tail(world, place, generation)


def check_verifier(world: World, place: VerifierPlace, *, ran: bool) -> None:
    """After a verifier's turn."""
    core = place.core
    links = place.endpoint._links
    bound: Counter[int] = Counter()
    for generation in core._generations.values():
        _line(world, place, generation)
        if generation.binding is not None:
            bound[generation.binding.drafter.link] += 1
            _tail(world, place, generation)
    for link, drafter in core.drafting.roster._drafters.items():
        holds(link in links, place.address, "keeps a drafter without a link")
        holds(drafter.bound == bound.pop(link, 0), place.address, "miscounts the bound")
    holds(not bound, place.address, "binds to drafters that it has not")
    holds(core._fronts <= links.keys(), place.address, "keeps a front door without a link")
    news = [*core._outbox.links, *core.drafting.outbox.links]
    holds(links.keys() >= set(news), place.address, "has news for links that are over")
    for node_id in place.drafting.faulted:
        holds(not world.drafters[node_id].honest, place.address, "took for faulty:", node_id)
    if ran:
        _grown(place)
        check_pages(place)
    for drafter_place in world.drafters.values():
        check_quiet(place, drafter_place)


def _line(world: World, place: VerifierPlace, generation: Generation) -> None:
    output = generation.output.tokens
    ask = world.answered[generation.front, generation.submit.request]
    wanted = ask.plain(world.chain, generation.choice).tokens
    holds(tuple(output) == wanted[: len(output)], place.address, generation.id, output, "not", wanted)
    holds(len(generation.line) == len(generation.submit.tokens) + len(output), "line", generation.id)
    scheduler = place.core.scheduler
    queue = scheduler.waiting if generation.sequence is None else scheduler.running
    holds(generation in queue, place.address, generation.id, "is in the wrong queue")


def _tail(world: World, place: VerifierPlace, generation: Generation) -> None:
    """Every guess was drafted from what is committed and the guesses before it."""
    assert generation.binding is not None
    tail, node_id = generation.binding.tail, generation.binding.drafter.node_id
    where = f"{place.address} request {generation.id} drafter {node_id}:"
    holds(tail.final == generation.output.tokens, where, "another line", tail.final)
    holds(not (tail.ahead and tail.owed), where, tail.ahead, "ahead, and", tail.owed, "owed")
    holds(len(tail.ahead) <= tail.granted, where, len(tail.ahead), "ahead of", tail.granted)
    sketch = world.drafters[node_id]
    if not tail.ahead or not sketch.honest:
        return
    seen = (tail.committed, *tail.ahead, *tail.confidences)
    if place.tails.get(generation.id) == seen:
        return
    place.tails[generation.id] = seen
    ask = world.answered[generation.front, generation.submit.request]
    state = ask.plain(world.chain, generation.choice).states[tail.committed]
    holds(len(tail.ahead) == len(tail.confidences), where, "confidences lost")
    for token, confidence in zip(tail.ahead, tail.confidences, strict=True):
        drafted = sketch.sketch.profile.fingerprint(state, token, generation.binding.epoch)
        holds(drafted == confidence, where, token, "of", tail.ahead, "was drafted elsewhere")
        state = world.chain.after(state, token)


def _grown(place: VerifierPlace) -> None:
    """Every decoding row committed, and its KV ends where the anchor begins."""
    for request, before in place.decoding.items():
        generation = place.core._generations.get(request)
        if generation is None:
            continue
        holds(len(generation.output.tokens) > before, place.address, request, "did not grow")
        assert generation.sequence is not None
        computed = generation.sequence.computed
        holds(computed == len(generation.line) - 1, place.address, request, computed, "computed")


def check_pages(place: VerifierPlace) -> None:
    """Every page is referenced by exactly the sequences that name it; the rest is free."""
    pool = place.core.scheduler.pool
    held: Counter[int] = Counter()
    for generation in place.core._generations.values():
        if generation.sequence is not None:
            held.update(generation.sequence.pages)
    holds(pool.free + len(held) == pool.pages, place.address, pool.free, "free,", len(held), "held")
    references = {page: count for page, count in enumerate(pool._references) if count}
    holds(references == held, place.address, "pages", references, "held", held)


# --- drafters ---------------------------------------------------------------------------------------


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


# --- links ------------------------------------------------------------------------------------------


def check_window(place: Place) -> None:
    """No side says more than its peer's window allows, and inboxes follow from that."""
    if place.node is None:
        return
    most = 0
    links = place.node.endpoint._links
    news = links.keys() - place.heard.keys()
    holds(news.isdisjoint(place.former), place.address, "has a link number again")
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
            holds(mirrors.keys() == told.keys(), "quiet link:", list(mirrors), "mirrored of", list(told))
        for request in mirrors.keys() & told.keys() - notes._news.get(link, {}).keys():
            _same_line(mirrors[request], told[request])


def _same_line(mirror: Mirror, generation: Generation) -> None:
    binding = generation.binding
    assert binding is not None
    if mirror.epoch != binding.epoch or mirror.unsaid:
        return
    tail = binding.tail
    line = tail.final[: tail.agreed] + tail.ahead
    holds(
        (line, tail.committed, tail.base) == (mirror.line, mirror.base, mirror.base),
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
