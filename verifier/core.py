"""The verifier as a pure state machine: events in, steps and messages out.

`handle` takes what came over links, `plan` says what the next forward computes, `settle` takes its verdicts and
commits, `outbox` says what a link must be told now, computed from state. The loop around it: `verifier/node.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from engine.pages import PagePool
from protocol.link import Event, LinkDown, LinkUp, Received, Rejected
from protocol.messages import (
    Abort,
    AnyMessage,
    Done,
    DraftTailStream,
    Emit,
    Heartbeat,
    Refuse,
    Reset,
    Statistics,
    Submit,
)
from protocol.outbox import Outbox
from verifier.admission import Admission
from verifier.commit import Detokenizer, Output
from verifier.config import VerifierConfig
from verifier.drafting import Drafting
from verifier.generation import Generation
from verifier.planner import Planner
from verifier.scheduler import Scheduler
from verifier.step import Step, Verdict


class VerifierCore:
    """All requests of one verifier.

    `admission` knows the model's limits, `detokenizer` makes a fresh one for every choice.
    """

    def __init__(
        self,
        config: VerifierConfig,
        admission: Admission,
        pool: PagePool,
        planner: Planner,
        detokenizer: Callable[[], Detokenizer],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.scheduler = Scheduler(config.scheduler, planner, pool, admission.context)
        self.drafting = Drafting(planner, admission.vocabulary, self.counters)
        self.draining = False
        self._admission = admission
        self._detokenizer = detokenizer
        self._generations: dict[int, Generation] = {}
        self._choices: dict[tuple[int, int], list[Generation]] = {}  # by (front link, its request)
        self._fronts: set[int] = set()
        self._outbox: Outbox[Generation] = Outbox()
        self._last_id = 0

    # --- events ---------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> None:
        """Take one event of a link; never raises for what a peer did."""
        match event:
            case LinkUp(role="drafter"):
                self.drafting.link_up(event)
            case LinkUp():
                self._fronts.add(event.link)
            case LinkDown(link=link) if link in self.drafting.roster:
                self.drafting.link_down(link, self._generations.values())
            case LinkDown():
                self._front_down(event.link)
            case Received():
                hear = (
                    self._hear_drafter if event.link in self.drafting.roster else self._hear_front
                )
                for message in event.messages:
                    hear(event.link, message, now)
            case Rejected():
                self.counters["links_rejected"] += 1

    def _hear_drafter(self, link: int, message: AnyMessage, now: float) -> None:
        match message:
            case DraftTailStream():
                self.drafting.row(link, message, self._generations.get(message.request), now)
            case Refuse(request=int(request)):
                self.drafting.refused(link, message, self._generations.get(request), now)
            case Heartbeat():
                self.drafting.heard(link, message)
            case _:
                self.counters["messages_unexpected"] += 1

    def _hear_front(self, link: int, message: AnyMessage, now: float) -> None:
        match message:
            case Submit() if link in self._fronts:
                self._submit(link, message, now)
            case Abort():
                for generation in list(self._choices.get((link, message.request), [])):
                    self._end(generation, "abort", message.reason)
            case Reset():
                self.scheduler.pool.clear_cache()
            case Heartbeat():
                pass
            case _:
                self.counters["messages_unexpected"] += 1

    def _front_down(self, link: int) -> None:
        self._fronts.discard(link)
        self._outbox.drop(link)
        for generation in [each for each in self._generations.values() if each.front == link]:
            self._forget(generation, "front door gone")

    def _submit(self, link: int, submit: Submit, now: float) -> None:
        key = (link, submit.request)
        refusal = self._admission.refusal(
            submit,
            known=key in self._choices,
            draining=self.draining,
            full=self.scheduler.full(submit.choices),
        )
        if refusal is not None:
            self._outbox.note(link, refusal)
            return
        self._choices[key] = []
        for choice in range(submit.choices):
            self._last_id += 1
            generation = Generation(
                id=self._last_id,
                front=link,
                submit=submit,
                choice=choice,
                arrived=now,
                output=Output(submit.ending, self._admission.end_tokens, self._detokenizer()),
                line=list(submit.tokens),
            )
            self._choices[key].append(generation)
            self._generations[generation.id] = generation
            self.scheduler.add(generation)

    # --- planning and settling ------------------------------------------------------------------

    def plan(self, now: float) -> Step | None:
        """What the next forward computes; None when there is nothing, or when a tail is worth waiting for."""
        for generation in [each for each in self._generations.values() if now >= each.deadline]:
            self._end(generation, "abort", "deadline")
        self.drafting.bind((*self.scheduler.running, *self.scheduler.waiting), now)
        if self.drafting.worth_waiting(self.scheduler.running, now):
            return None
        return self.scheduler.plan()

    def settle(self, step: Step, verdicts: list[Verdict], started: float, now: float) -> None:
        """Commit the verdicts of a step, in order."""
        self.scheduler.chunking.measured(step.tokens, now - started)
        self.counters["steps"] += 1
        for work, verdict in zip(step.rows, verdicts, strict=True):
            generation = self._generations.get(work.request)
            if generation is None or generation.sequence is None:
                continue  # it ended, or lost its pages, while the forward ran
            generation.sequence.computed = work.start + len(work.tokens)
            if verdict.prompt_logprobs:
                known = len(generation.prompt_scores) - work.start
                generation.prompt_scores += verdict.prompt_logprobs[known:]
            if work.draws:
                self._commit(generation, work.drafts, verdict)
            self.scheduler.pool.publish(generation.sequence, generation.line)
        self._end_finished()
        self.drafting.stepped(now)

    def _commit(self, generation: Generation, drafts: int, verdict: Verdict) -> None:
        assert generation.sequence is not None
        taken = generation.output.commit(verdict.tokens)
        generation.line += taken
        generation.marks += [index < verdict.accepted for index in range(len(taken))]
        generation.scores += verdict.logprobs[: len(taken)]
        generation.rounds += 1
        generation.drafted += drafts
        generation.accepted += verdict.accepted
        # Invariant: in decoding, KV ends where the anchor begins.
        self.scheduler.pool.truncate(generation.sequence, len(generation.line) - 1)
        self._outbox.news(generation.front, generation.id, generation)
        self.drafting.committed(generation, taken)

    # --- endings ----------------------------------------------------------------------------------

    def _end_finished(self) -> None:
        for generation in [each for each in self.scheduler.running if each.output.finish]:
            self._end(generation, generation.output.finish)

    def _end(self, generation: Generation, reason: str, detail: str = "") -> None:
        """The last words to the front door, then nothing is left of the choice."""
        generation.output.finish = reason
        done = Done(
            request=generation.submit.request,
            choice=generation.choice,
            reason=reason,
            prompt_tokens=len(generation.submit.tokens),
            output_tokens=len(generation.output.tokens),
            statistics=Statistics(
                generation.rounds, generation.drafted, generation.accepted, generation.cached
            ),
            detail=detail,
        )
        self._outbox.note(generation.front, *_emissions(generation), done)
        self._forget(generation, reason)

    def _forget(self, generation: Generation, reason: str) -> None:
        self.drafting.unbind(generation, reason)
        self.scheduler.remove(generation)
        self._outbox.forget(generation.front, generation.id)
        del self._generations[generation.id]
        key = (generation.front, generation.submit.request)
        self._choices[key].remove(generation)
        if not self._choices[key]:
            del self._choices[key]

    # --- what links are told ----------------------------------------------------------------------

    def outbox(self, link: int) -> list[AnyMessage]:
        """What this link must be told now, in order; the caller says it, or the link ends."""
        if link in self.drafting.roster:
            return self.drafting.outbox.take(link, self.drafting.tell)
        return self._outbox.take(link, _emissions)

    @property
    def links_with_news(self) -> list[int]:
        """Links that must be told something."""
        return self._outbox.links + self.drafting.outbox.links

    def heartbeat(self) -> Heartbeat:
        return Heartbeat("draining" if self.draining else "ready", len(self._generations))

    @property
    def idle(self) -> bool:
        """No request is left and every front door was told so."""
        return not self._generations and not self._outbox.links

    def deadline(self, now: float) -> float:
        """When `plan` must be called next even if nothing arrives."""
        times = [self.drafting.patient_until or float("inf")]
        for generation in self._generations.values():
            times += [generation.deadline, generation.waits.deadline(now)]
        return min(times)


def _emissions(generation: Generation) -> Iterator[AnyMessage]:
    """What became certain since the front door was last told."""
    output = generation.output
    text = output.text[generation.sent_text : output.certain]
    tokens = tuple(output.tokens[generation.sent_tokens :])
    if not text and not tokens:
        return
    yield Emit(
        request=generation.submit.request,
        choice=generation.choice,
        tokens=tokens,
        text=text,
        drafted=tuple(generation.marks[generation.sent_tokens :]),
        logprobs=tuple(generation.scores[generation.sent_tokens :]),
        prompt_logprobs=tuple(generation.prompt_scores[generation.sent_prompt_scores :]),
    )
    generation.sent_tokens = len(output.tokens)
    generation.sent_prompt_scores = len(generation.prompt_scores)
    generation.sent_text += len(text)
