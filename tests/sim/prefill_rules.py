"""What must hold of hand-overs after every turn of either side."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.sim.breach import holds

if TYPE_CHECKING:
    from tests.sim.roles import PrefillPlace, VerifierPlace


def check_leases(place: VerifierPlace) -> None:
    """A choice that waits for its prompt has pages and a link to wait for, and some time it waits no more."""
    core, handover = place.core, place.core.handover
    leases = handover._taking.leases
    leased = {each.id: each.lease for each in core._generations.values() if each.lease is not None}
    holds(leases == leased, place.address, "leases", list(leases), "of", list(leased))
    holds(handover._asked.keys() == leases.keys(), place.address, "asked", list(handover._asked))
    for request, lease in leases.items():
        generation = core._generations[request]
        where = f"{place.address} request {request}:"
        holds(generation in core.scheduler.running, where, "waits for its prompt without pages")
        holds(lease.link in place.endpoint._links, where, "waits for a link that is over")
        sequence = generation.sequence
        assert sequence is not None
        holds(sequence.computed == lease.complete, where, sequence.computed, lease.complete)
        covered = len(sequence.pages) * core.scheduler.pool.page_size
        holds(covered >= lease.end, where, covered, "positions for", lease.end)
        holds(lease.until <= lease.begun + place.config.handover.whole_seconds, where, "for ever")


def check_prefill(place: PrefillPlace) -> None:
    """After a prefill node's turn: every prompt is a job of a living link, and every page is some prompt's, or free."""
    core = place.core
    jobs = core._giving.jobs
    holds(core.prompts.keys() == jobs.keys(), place.address, list(core.prompts), "not", list(jobs))
    held: Counter[int] = Counter()
    for (link, request), prompt in core.prompts.items():
        holds(link in place.endpoint._links, place.address, request, "is of a link that is over")
        holds(prompt.job is jobs[link, request], place.address, request, "is another job")
        if prompt.sequence is not None:
            held.update(prompt.sequence.pages)
            holds(
                prompt.job.ready <= max(prompt.sequence.computed, prompt.job.offer.start), "ahead"
            )
    references = {page: count for page, count in enumerate(core.pool._references) if count}
    holds(references == held, place.address, "pages", references, "held", held)
    links = place.endpoint._links.keys()
    holds(core.links.keys() <= links, place.address, "keeps links that are over")
    holds(links >= set(core.links_with_news), place.address, "has news for links that are over")


def rest(place: PrefillPlace) -> None:
    """Nothing is left of what is over."""
    core = place.core
    holds(core.idle, place.address, "keeps prompts", list(core.prompts))
    holds(core.pool.free == core.pool.pages, place.address, "keeps pages")
    away = {link: sender.away for link, (_, sender) in place.deliveries._senders.items()}
    holds(not any(away.values()), place.address, "waits for places", away)
