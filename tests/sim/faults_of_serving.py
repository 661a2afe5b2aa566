"""Planted faults of the verifier: pages, steps, commits, endings, front doors."""

from collections.abc import Mapping
from typing import Final

from engine.pages import PagePool
from orchestrator.front.core import FrontCore
from tests.sim.edits import Fault, fault
from verifier import emissions, fronts, scheduler
from verifier.commit import Output
from verifier.core import VerifierCore
from verifier.fronts import Fronts
from verifier.scheduler import Scheduler

SERVING: Final[Mapping[str, Fault]] = {
    "KV not truncated": fault(VerifierCore, "_commit", "self.scheduler.pool.truncate(", "("),
    "KV of the anchor taken for computed": fault(
        VerifierCore, "_commit", "len(generation.line) - 1)", "len(generation.line))"
    ),
    "pages of guesses shared": fault(
        PagePool, "publish", "min(sequence.computed, len(tokens))", "len(tokens)"
    ),
    "pages shared without their parents": fault(
        PagePool, "_match", "parent = cached.identity", "pass"
    ),
    "last token shared": fault(
        PagePool, "_match", "len(tokens) - self.page_size,", "len(tokens) - self.page_size + 1,"
    ),
    "idle page handed out twice": fault(
        PagePool, "open", "self._idle.pop(cached.page, None)", "pass"
    ),
    "shared page not counted": fault(
        PagePool, "open", "self._references[cached.page] += 1", "self._references[cached.page] = 1"
    ),
    "shared page given back": fault(
        PagePool, "_give_back", "if self._references[page]:", "if False:"
    ),
    "evicted page stays cached": fault(PagePool, "_evict", "self._forget(page)", "pass"),
    "pages kept at preemption": fault(
        Scheduler,
        "_preempt",
        "self.remove(generation)",
        "self.running.remove(generation)\n    generation.sequence = None",
    ),
    "preempted row computed": fault(
        Scheduler,
        "_place",
        "self._preempt(victim)",
        "self.pool.release(victim.sequence)",
        rare=True,
    ),
    "drafts beyond the end": fault(Scheduler, "_lengths", "each.output.room - 1", "99"),
    "end drawn before min_tokens": fault(
        scheduler, "_work", "output.end_tokens if", "frozenset() if"
    ),
    "one ban too many": fault(
        scheduler,
        "_work",
        "output.min_tokens - len(output.tokens) - 1)",
        "output.min_tokens - len(output.tokens))",
        rare=True,
    ),
    "tokens after the end": fault(
        Output, "commit", "if self.finish or not self._allowed(token):", "if False:"
    ),
    "stop text searched in the last piece only": fault(
        Output, "_cut_at_stop", "max(0, before - len(stop) + 1)", "before"
    ),
    "half a stop text sent": fault(
        Output, "certain", " - _partial_stop(self.text, self._ending.stop, self._hold)", ""
    ),
    "tokens sent twice": fault(emissions, "_emit", "generation.sent_tokens += len(tokens)", "pass"),
    "Done twice": fault(
        VerifierCore,
        "_end",
        "self._forget(",
        "self.fronts.last_words(generation, reason, detail)\n    self._forget(",
    ),
    "last Emit lost": fault(fronts, "last_words", "yield from emissions(generation)", "pass"),
    "finished choice goes on": fault(VerifierCore, "settle", "if each.output.finish", "if False"),
    "Abort ignored": fault(VerifierCore, "_hear_front", "self._end(", "(", rare=True),
    "end keeps its pages": fault(VerifierCore, "_forget", "self.scheduler.remove(", "("),
    "end keeps its mirror": fault(VerifierCore, "_forget", "self.drafting.unbind(", "("),
    "front door gone unnoticed": fault(
        VerifierCore, "_link_down", 'self._forget(generation, "front', '(generation, "front'
    ),
    "deadline overlooked": fault(VerifierCore, "plan", "now >= each.deadline", "False"),
    "draining verifier takes requests": fault(
        VerifierCore, "_submit", "draining=self.draining", "draining=False", rare=True
    ),
    "choices mixed up": fault(Fronts, "_generation", "submit, choice, now", "submit, 0, now"),
    "lost verifier unnoticed by the front door": fault(
        FrontCore, "_link_down", "self._fail(ticket, failure)", "()", rare=True
    ),
    "client gone unsaid by the front door": fault(
        FrontCore,
        "abort",
        "self._outbox.note(visit.seat.link, Abort(ticket, reason))",
        "pass",
        rare=True,
    ),
}
