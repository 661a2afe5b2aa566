"""The verifier as a pure state machine: events in, steps and messages out.

`handle` takes what came over links, `plan` says what the next forward computes, `settle` takes its verdicts and
commits, `outbox` says what a link must be told now, computed from state. The loop around it: `verifier/node.py`.
"""

from collections import Counter
from collections.abc import Callable

from engine.pages import PagePool
from kvtransfer.layout import Layout
from kvtransfer.taking import Taking
from protocol.link import Event, LinkDown, LinkUp, Received, Rejected
from protocol.messages import (
    Abort,
    AnyMessage,
    Blob,
    DraftTailStream,
    Facts,
    Grammar,
    Heartbeat,
    Refuse,
    Report,
    Reset,
    Submit,
)
from verifier.acceptance import lossy
from verifier.admission import Admission
from verifier.commit import Detokenizer, Timed
from verifier.config import VerifierConfig
from verifier.drafting import Drafting
from verifier.exactness import asked
from verifier.fronts import Fronts
from verifier.generation import Generation
from verifier.handover import Handover, NoMemory, Supply
from verifier.hidden import Hidden
from verifier.lending import Lending, Loan
from verifier.matcher import Compiled, Unchecked
from verifier.planner import Outcome, Planner, Seen
from verifier.record import Record
from verifier.scheduler import Scheduler
from verifier.step import Round, Step, Verdict, Work
from verifier.traces import Traces


class VerifierCore:
    """All requests of one verifier. `admission` knows the model's limits, `detokenizer` makes one for every choice.

    `hidden` reads the target's hidden states, where drafters may need them; `loan` is for those without its checkpoint;
    `supply` takes prompts that prefill nodes compute; `timed` makes of a detokenizer one that knows when it worked, for
    traces.
    """

    def __init__(
        self,
        config: VerifierConfig,
        admission: Admission,
        pool: PagePool,
        planner: Planner,
        detokenizer: Callable[[], Detokenizer],
        *,
        hidden: Hidden | None = None,
        traces: Traces | None = None,
        loan: Loan | None = None,
        supply: Supply | None = None,
        timed: Callable[[Detokenizer], Timed] | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.scheduler = Scheduler(config.scheduler, planner, pool, admission.context)
        self.drafting = Drafting(
            planner,
            admission.vocabulary,
            self.counters,
            asked(config),
            halves=config.planner.halves if config.planner.overlap else "never",
        )
        self.drafting.hidden = hidden
        self.lending = Lending(loan)
        lossily = lossy(config)
        self.record = Record(config.planner.draft_length, config.rule if lossily else "")
        self.fronts = Fronts(admission, detokenizer, self.record.ledger, lossy=lossily, timed=timed)
        supply = supply or Supply(Taking(config.handover, Layout((), 1), ()), NoMemory())
        self.handover = Handover(supply, pool, self.drafting, self.record)
        self.draining = False
        self._planner = planner
        self._traces = traces
        self._ended: float | None = None  # the last step, if nothing was idle since
        self._plain: dict[int, str] = {}  # why choices take part in the planned step without drafts
        self._generations = self.fronts.generations

    # --- events ---------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> None:
        """Take one event of a link; never raises for what a peer did."""
        match event:
            case LinkUp():
                self._link_up(event)
            case LinkDown():
                self._link_down(event.link, now)
            case Received(link=link):
                hear = self._hear_front
                if link in self.drafting.roster:
                    hear = self._hear_drafter
                elif link in self.handover:
                    hear = self._hear_prefill
                for message in event.messages:
                    hear(link, message, now)
            case Rejected():
                self.counters["links_rejected"] += 1

    def _link_up(self, up: LinkUp) -> None:
        match up.role:
            case "drafter":
                self.drafting.link_up(up)
            case "prefill":
                self.handover.link_up(up)
            case "fetcher":
                self.lending.link_up(up.link)
            case _:
                self.fronts.link_up(up.link)

    def _link_down(self, link: int, now: float) -> None:
        if link in self.drafting.roster:
            self.drafting.link_down(link, self._generations.values(), now)
        elif link in self.lending:
            self.lending.link_down(link)
        elif link in self.handover:
            self.handover.link_down(link, now)
        else:
            for generation in self.fronts.link_down(link):
                self._forget(generation, "front door gone", now)

    def _hear_drafter(self, link: int, message: AnyMessage, now: float) -> None:
        match message:
            case DraftTailStream():
                self.drafting.row(link, message, self._generations.get(message.request), now)
            case Refuse(request=int(request)):
                self.drafting.refused(link, message, self._generations.get(request), now)
            case Heartbeat() | Report():
                self.drafting.heard(link, message, self._generations.values(), now)
            case _:
                self.counters["messages_unexpected"] += 1

    def _hear_prefill(self, link: int, message: AnyMessage, now: float) -> None:
        if not self.handover.hear(link, message, now):
            self.counters["messages_unexpected"] += 1

    def _hear_front(self, link: int, message: AnyMessage, now: float) -> None:
        match message:
            case Submit() if link in self.fronts:
                self._submit(link, message, now)
            case Abort():
                for generation in self.fronts.choices(link, message.request):
                    self._end(generation, "abort", now, message.reason)
            case Reset():
                self.scheduler.pool.clear_cache()
            case Blob() if link in self.lending:
                self.lending.asked(link, message)
            case Heartbeat():
                pass
            case _:
                self.counters["messages_unexpected"] += 1

    def _submit(self, link: int, submit: Submit, now: float) -> None:
        full = self.scheduler.full(submit.choices)
        for each in self.fronts.submit(link, submit, now, draining=self.draining, full=full):
            self.scheduler.add(each)

    def compiled(self, grammar: Grammar, result: Compiled | str, now: float) -> None:
        """A grammar can be used from now on, or a text says what is wrong with it."""
        for each in self.scheduler.held(grammar):
            if not isinstance(result, str):
                each.output.follow(result())
                continue
            self._forget(each, "refused", now)
            if each.choice == 0:
                code = "unchecked" if isinstance(result, Unchecked) else "invalid"
                words = Refuse(code, result, each.submit.request, field="grammar")
                self.fronts.refuse(each.front, words)

    # --- planning and settling ------------------------------------------------------------------

    def plan(self, now: float) -> Step | None:
        """What the next forward computes; None when there is nothing, or when a tail is worth waiting for."""
        for generation in [each for each in self._generations.values() if now >= each.deadline]:
            self._end(generation, "abort", now, "deadline")
        self.handover.tick(now)
        self.drafting.bind((*self.scheduler.running, *self.scheduler.waiting), now)
        self.drafting.wake(self.scheduler.running)
        left_out = self.drafting.pace.sitting_out(self.scheduler.running, now)
        if left_out is None:
            return None
        step = self.scheduler.plan(left_out, lambda each: self.handover.ask(each, now))
        for generation in self.scheduler.preempted:
            self.handover.drop(generation, "its pages are needed elsewhere", now)
        if step is None:
            self._ended = None
        else:
            self._planned(step)
        self.record.planned(self.scheduler.admitted, self.scheduler.preempted, now)
        return step

    def _planned(self, step: Step) -> None:
        """Note what the step's verdicts must not be asked for: meanwhile tails may come."""
        self._plain = {
            work.request: self.drafting.why_plain(self._generations[work.request], work)
            for work in step.rows
            if work.draws
        }
        if self._traces is not None:
            self._traces.planned(self._decoding(step), self._planner.choice.reason)

    def _decoding(self, step: Step) -> list[Generation]:
        """Choices whose row is a window: the anchor and drafts."""
        return [
            self._generations[work.request]
            for work in step.rows
            if work.draws and len(work.tokens) == 1 + work.drafts
        ]

    def settle(self, step: Step, verdicts: list[Verdict], started: float, now: float) -> None:
        """Commit the verdicts of a step, in order."""
        self.scheduler.chunking.measured(step.tokens, now - started)
        parts: list[Seen] = []
        for work, verdict in zip(step.rows, verdicts, strict=True):
            generation = self._generations.get(work.request)
            if generation is None or generation.sequence is None:
                continue  # it ended, or lost its pages, while the forward ran
            generation.sequence.computed = work.start + len(work.tokens)
            generation.score(work, verdict)
            if work.draws:
                part = self._commit(generation, work, verdict, started, now)
                if len(work.tokens) == 1 + work.drafts:
                    parts.append(_seen(work, part))
            else:
                self.drafting.computed(generation)
            self.scheduler.pool.publish(generation.sequence, generation.line)
        self._learn(step, parts, started, now)
        self.record.stepped(step, started, now)
        for generation in [each for each in self.scheduler.running if each.output.finish]:
            self._end(generation, generation.output.finish, now, generation.output.detail)
        self.drafting.stepped(started, now)

    def _learn(self, step: Step, parts: list[Seen], started: float, now: float) -> None:
        cycle = now - (started if self._ended is None else self._ended)
        beside = step.tokens - sum(1 + each.drafted for each in parts)
        outcome = Outcome(parts, step.tokens, beside, now - started, cycle)
        if parts:
            self.record.ledger.chosen(self._planner.choice, self.scheduler.drafts, outcome)
        self._planner.learn(outcome)
        if not beside:
            windows = [(each.drafted, each.accepted) for each in parts if each.drafted]
            self.drafting.pace.halves.stepped(step.tokens, now - started, windows)
        if self._traces is not None:
            self._traces.stepped(len(parts), step.tokens, beside, now - started, cycle)
        self._ended = now

    def _commit(self, generation: Generation, work: Work, verdict: Verdict, *times: float) -> Round:
        assert generation.sequence is not None
        taken = generation.take(verdict)
        generation.count_round(work.drafts, verdict.accepted)
        why = self._plain[work.request]
        part = Round(work.drafts, verdict.accepted, len(taken), why, *times)
        self.record.committed(generation, part)
        if self._traces is not None:
            self._traces.committed(generation, work.drafts, verdict.accepted, len(taken), plain=why)
        self.drafting.judged(generation, part)
        # Invariant: in decoding, KV ends where the anchor begins.
        self.scheduler.pool.truncate(generation.sequence, len(generation.line) - 1)
        self.fronts.news(generation)
        self.drafting.committed(generation, taken)
        return part

    # --- endings ----------------------------------------------------------------------------------

    def _end(self, generation: Generation, reason: str, now: float, detail: str = "") -> None:
        """The last words to the front door, then nothing is left of the choice."""
        self.fronts.last_words(generation, reason, detail)
        self._forget(generation, reason, now)

    def _forget(self, generation: Generation, reason: str, now: float) -> None:
        self.record.ended(generation, reason, now)
        self._planner.forget(generation.id)
        if self._traces is not None:
            self._traces.ended(generation)
        self.drafting.unbind(generation, reason)
        self.handover.drop(generation, reason, now)
        self.scheduler.remove(generation)
        self.fronts.forget(generation)

    # --- what links are told ----------------------------------------------------------------------

    def outbox(self, link: int) -> list[AnyMessage]:
        """What this link must be told now, in order; the caller says it, or the link ends."""
        if link in self.drafting.roster:
            return self.drafting.messages(link)
        if link in self.lending:
            return self.lending.messages(link)
        if link in self.handover:
            return self.handover.messages(link)
        return self.fronts.messages(link)

    @property
    def links_with_news(self) -> list[int]:
        """Links that must be told something, first those whose answers the next step may wait for."""
        sides = (
            self.drafting.outbox.links,
            self.handover.links,
            self.fronts.news_for,
            self.lending.links,
        )
        return [link for links in sides for link in links]

    def facts(self) -> Facts:
        """What this verifier counted since it began, and how it is now."""
        return self.record.ledger.facts(
            self.scheduler, self.drafting, self.counters, self._planner.errors, len(self.handover)
        )

    @property
    def reports(self) -> list[Report]:
        """What drafters and prefill nodes said of themselves."""
        return self.drafting.reports + self.handover.reports

    def heartbeat(self) -> Heartbeat:
        return Heartbeat("draining" if self.draining else "ready", len(self._generations))

    @property
    def idle(self) -> bool:
        """No request is left and every front door was told so."""
        return not self._generations and not self.fronts.news_for

    def deadline(self, now: float) -> float:
        """When `plan` must be called next even if nothing arrives."""
        pace = self.drafting.pace
        times = [pace.patient_until or float("inf"), self.handover.deadline()]
        for generation in self._generations.values():
            times += [generation.deadline, generation.waits.deadline(now)]
        return min(times)


def _seen(work: Work, part: Round) -> Seen:
    return Seen(
        work.request,
        work.label,
        part.drafted,
        part.accepted,
        part.taken,
        work.confidences,
        no_tail=part.plain == "no_tail",
    )
