"""Planted faults of hand-overs between prefill nodes and verifiers."""

from collections.abc import Mapping
from typing import Final

from kvtransfer.giving import Giving
from kvtransfer.leases import Lease
from kvtransfer.taking import Taking
from tests.sim.edits import Fault, fault
from verifier.core import VerifierCore
from verifier.handover import Handover
from verifier.prefill_core import PrefillCore
from verifier.prefill_queue import PrefillQueue
from verifier.scheduler import Scheduler

HANDOVER: Final[Mapping[str, Fault]] = {
    "chunk of an older lease taken": fault(
        Taking,
        "_live",
        "(lease.link, lease.epoch) == (link, epoch)",
        "True",
        rare=True,
        unseen="none of 5,500 histories has a chunk that comes after a newer lease of its request",
    ),
    "chunk out of turn taken": fault(
        Lease,
        "continues",
        "fits and all(filled == piece.start for filled in layers)",
        "fits",
        rare=True,
        unseen="none of 2,000 histories has chunks of one lease in another order",
    ),
    "one layer taken for all": fault(Lease, "complete", "min(", "max("),
    "anchor handed over": fault(Taking, "offer", "end = len(tokens) - 1", "end = len(tokens)"),
    "place kept": fault(
        Taking, "chunk", "self.givers[link].places.append(message.parcel.place)", "pass"
    ),
    "lease outlives its pages": fault(
        VerifierCore,
        "plan",
        'self.handover.drop(generation, "its pages are needed elsewhere", now)',
        "pass",
        rare=True,
    ),
    "lease outlives its request": fault(
        VerifierCore, "_forget", "self.handover.drop(generation, reason, now)", "pass"
    ),
    "lease outlives its link": fault(Handover, "link_down", "self._over(", "(", rare=True),
    "lease without an end": fault(Handover, "tick", "self._taking.tick(now)", "()"),
    "what others compute computed": fault(Scheduler, "_works", "each.lease is None", "True"),
    "pages not reserved for a lease": fault(
        Handover, "ask", "self._pool.reserve(sequence, lease.end)", "pass"
    ),
    "abort unheard": fault(
        Handover,
        "hear",
        "self._taking.aborted(link, message)",
        "None",
        unseen="time ends the lease too",
    ),
    "pages of a prompt kept": fault(
        PrefillQueue, "remove", "self.pool.release(prompt.sequence)", "pass"
    ),
    "prompt outlives its link": fault(PrefillCore, "handle", "self._forget(job, ", "(", rare=True),
    "sent before it is computed": fault(
        PrefillQueue,
        "_opened",
        "self._giving.computed(prompt.job, sequence.computed)",
        "self._giving.computed(prompt.job, offer.end)",
    ),
    "prefix hits not told": fault(
        PrefillQueue,
        "_opened",
        "self._giving.computed(prompt.job, sequence.computed)",
        "pass",
        unseen="the next forward tells of them, or the verifier computes them itself",
    ),
    "layers sent before they are computed": fault(
        Giving, "reached", "job.coming[0].end <= layers", "True"
    ),
    "late job kept": fault(Giving, "late", "now >= each.until", "False"),
}
