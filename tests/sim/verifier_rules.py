"""What must hold of a verifier before every step and after every turn, whatever happened before it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from protocol.link import Dialler
from tests.sim.asks import ENDED_WITHIN
from tests.sim.breach import holds
from tests.sim.link_rules import check_quiet
from tests.sim.prefill_rules import check_leases
from tests.sim.proposer import law_of
from verifier.acceptance import RULES
from verifier.generation import Generation
from verifier.step import Step
from verifier.tail import DraftTail

if TYPE_CHECKING:
    from tests.sim.roles import VerifierPlace
    from tests.sim.world import World


def watch_step(world: World, place: VerifierPlace, step: Step) -> None:
    """Before a step runs: its rows are the lines they claim to be, and no guess stands where it was not drafted."""
    core = place.core
    generations = core._generations
    rows = {row.request: row for row in step.rows}
    sat = core.drafting.pace.halves._sat - rows.keys()
    place.decoding = {
        each.id: len(each.output.tokens)
        for each in core.scheduler.running
        if each.todo == 1 and each.id not in sat
    }
    holds(len(rows) == len(step.rows), place.address, "two rows for one request")
    decoding = [each for each in core.scheduler.running if each.todo == 1]
    _left_out(place, {each.id for each in decoding} - rows.keys())
    place.decoding = {each.id: len(each.output.tokens) for each in decoding if each.id in rows}
    for row in step.rows:
        generation = generations[row.request]
        assert generation.sequence is not None
        holds(generation.lease is None, place.address, row.request, "computes what others compute")
        final, guesses = (
            row.tokens[: len(row.tokens) - row.drafts],
            row.tokens[len(row.tokens) - row.drafts :],
        )
        line = tuple(generation.line[row.start : row.start + len(final)])
        holds(
            final == line and row.start == generation.sequence.computed, place.address, "row", row
        )
        known = (tuple(row.prompt), list(row.output))
        holds(known == (generation.submit.tokens, generation.output.tokens), place.address, known)
        if row.drafts:
            binding = generation.binding
            holds(binding, place.address, "drafts without a drafter")
            assert binding is not None
            limit = min(place.config.planner.draft_length, generation.output.room - 1)
            holds(row.drafts <= limit, place.address, row.drafts, "drafts, limit", limit)
            holds(list(guesses) == binding.tail.ahead[: row.drafts], place.address, "not its tail")
            _tail(world, place, generation)


def _left_out(place: VerifierPlace, requests: set[int]) -> None:
    """Whoever decodes takes part in every step; where halves take turns, in every other one at least."""
    halves = place.config.planner.halves != "never" and place.config.planner.overlap
    holds(halves or not requests, place.address, "left out of a step:", requests)
    holds(requests.isdisjoint(place.sat), place.address, "left out twice in a row:", requests)
    place.sat = frozenset(requests)


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
    holds(core.fronts.links <= links.keys(), place.address, "keeps a front door without a link")
    news = [*core.fronts._outbox.links, *core.drafting.outbox.links]
    holds(links.keys() >= set(news), place.address, "has news for links that are over")
    for node_id in place.drafting.faulted:
        holds(not world.drafters[node_id].honest, place.address, "took for faulty:", node_id)
    for lane in place.endpoint._lanes.values():
        listed = not isinstance(lane.side, Dialler) or lane.peer in place.peers
        holds(listed, place.address, "dials", lane.peer, "which is not on its list")
    if core.draining and place.last_id is None:
        place.last_id = core.fronts._last_id
    holds(place.last_id in {None, core.fronts._last_id}, place.address, "drains and takes requests")
    check_leases(place)
    if ran:
        _grown(place)
        check_pages(place)
    for drafter_place in world.drafters.values():
        check_quiet(place, drafter_place)


def _line(world: World, place: VerifierPlace, generation: Generation) -> None:
    output = generation.output.tokens
    ask = world.answered[generation.front, generation.submit.request]
    wanted = ask.plain(world.chain, generation.choice).tokens
    holds(
        tuple(output) == wanted[: len(output)], place.address, generation.id, output, "not", wanted
    )
    holds(
        len(generation.line) == len(generation.submit.tokens) + len(output), "line", generation.id
    )
    front = str(place.endpoint._links[generation.front].peer)
    late = ask.cancelled is not None and world.clock() > ask.cancelled + ENDED_WITHIN
    holds(
        not late or world.hindered(front, place.address),
        place.address,
        "goes on with",
        generation.id,
    )
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
    known = not tail.ahead or max(tail.ahead) < world.chain.vocabulary
    holds(known, where, tail.ahead, "outside the vocabulary")
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
    if RULES[place.config.rule].laws:
        _laws(world, where, tail)
    for token, confidence in zip(tail.ahead, tail.confidences, strict=True):
        drafted = sketch.sketch.profile.fingerprint(state, token, generation.binding.epoch)
        holds(drafted == confidence, where, token, "of", tail.ahead, "was drafted elsewhere")
        state = world.chain.after(state, token)


def _laws(world: World, where: str, tail: DraftTail) -> None:
    """Every guess stands beside the law that it was drawn from."""
    holds(len(tail.ahead) == len(tail.laws), where, "laws lost")
    for token, confidence, law in zip(tail.ahead, tail.confidences, tail.laws, strict=True):
        wanted = law_of(token, confidence, world.chain.vocabulary)
        same = law is not None and (law.ids.tolist(), law.values.tolist()) == (
            wanted.ids.tolist(),
            wanted.values.tolist(),
        )
        holds(same, where, token, "of", tail.ahead, "has the law of another")


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
