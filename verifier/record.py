"""What a verifier did: in numbers always, and in spans for requests that are traced. Pure.

The core tells it of everything that happens to choices; a request that is not traced costs one comparison a round.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from kvtransfer.leases import Lease
from protocol import attributes
from protocol.spans import Context, Place, Recorder, Span, Value, trace_number
from verifier.generation import Generation
from verifier.ledger import Ledger
from verifier.step import Round, Step

MOST_LINKS: Final = 32
"""Requests of a step that its span is linked with; a larger batch says its size all the same."""
NAMED: Final = frozenset({attributes.CHOICE, attributes.PREFILL, attributes.DECODE})
"""Spans that others lie below, or are linked with: there is one of each in a choice, so the name tells it."""
MOST_ENDINGS: Final = 1024
"""Endings that are kept for whoever logs them."""


class _Leader(NamedTuple):
    """The first traced choice of a step: the step's span lies below one of its spans."""

    context: Context
    scope: int
    below: str


class Ended(NamedTuple):
    """A choice that is over, for the log. `request` is what its front door calls it, `number` what drafters do."""

    request: int
    choice: int
    number: int
    reason: str
    prompt: int
    tokens: int
    rounds: int
    drafted: int
    accepted: int
    seconds: float
    trace: str


class Record:
    """The ledger, and spans and endings that nobody has taken yet."""

    def __init__(self, draft_length: int, lossy: str = "") -> None:
        self.ledger = Ledger(draft_length, lossy)
        self.spans = Recorder()
        self.endings: deque[Ended] = deque(maxlen=MOST_ENDINGS)
        self._leader: _Leader | None = None
        self._others: list[tuple[Context, Place]] = []  # the other traced choices of this step
        self._steps = 0  # that were traced

    def planned(
        self, admitted: Iterable[Generation], preempted: Iterable[Generation], now: float
    ) -> None:
        """These choices began to run, then those lost their pages and wait again."""
        for generation in admitted:
            if generation.context is not None:
                begun = generation.arrived if generation.queued is None else generation.queued
                self._add(generation, attributes.QUEUE, begun, now, {})
            if generation.admitted is None:
                generation.admitted = now
                self.ledger.admitted(generation)
        for generation in preempted:
            generation.queued = now
            generation.preemptions += 1

    def handed(self, generation: Generation, lease: Lease, outcome: str, now: float) -> None:
        """A prefill node does not fill the pages of this choice any more."""
        self.ledger.handed(outcome, lease.complete - lease.start, now - lease.begun)
        if generation.context is not None:
            about: dict[str, Value] = {
                attributes.PREFILL_NODE: lease.giver,
                attributes.END: outcome,
                attributes.EPOCH: lease.epoch,
                attributes.HANDED_TOKENS: lease.complete - lease.start,
                attributes.CHANNEL: lease.channel,
            }
            self._add(generation, attributes.HANDOVER, lease.begun, now, about)

    def committed(self, generation: Generation, part: Round) -> None:
        """A verdict was committed."""
        self.ledger.round(generation, part)
        if generation.context is not None:
            self._verified(generation, generation.context, part)
        if generation.first is None:
            generation.first = part.now
        generation.last = part.now

    def stepped(self, step: Step, started: float, now: float) -> None:
        """All verdicts of a step are committed."""
        self.ledger.step(step.tokens, now - started)
        leader = self._leader
        if leader is None:
            return
        self.spans.add(
            Span(
                context=leader.context,
                scope=leader.scope,
                name=attributes.STEP,
                start=started,
                end=now,
                attributes={
                    attributes.STEP_ROWS: len(step.rows),
                    attributes.STEP_TOKENS: step.tokens,
                },
                parent=leader.below,
                key=self._step_key,
                links=tuple(self._others[:MOST_LINKS]),
            )
        )
        self._steps += 1
        self._leader = None
        self._others.clear()

    def ended(self, generation: Generation, reason: str, now: float) -> None:
        """Nothing more comes of a choice."""
        self.ledger.ended(generation, reason, now)
        self.endings.append(_ending(generation, reason, now))
        if generation.context is None:
            return
        if generation.admitted is None:
            self._add(generation, attributes.QUEUE, generation.arrived, now, {})
        elif generation.first is None:
            self._add(generation, attributes.PREFILL, generation.admitted, now, {})
        else:
            now = max(now, generation.written)
            self._add(generation, attributes.DECODE, generation.first, now, {})
        plain = sum(times for drafted, _, times in generation.history if not drafted)
        about: dict[str, Value] = {
            attributes.CHOICE_INDEX: generation.choice,
            attributes.INPUT_TOKENS: len(generation.submit.tokens),
            attributes.OUTPUT_TOKENS: len(generation.output.tokens),
            attributes.CACHED_TOKENS: generation.cached,
            attributes.ROUNDS: generation.rounds,
            attributes.DRAFTED: generation.drafted,
            attributes.ACCEPTED: generation.accepted,
            attributes.PLAIN_ROUNDS: plain,
            attributes.EPOCH: generation.epoch,
            attributes.PREEMPTIONS: generation.preemptions,
            attributes.END: reason,
        }
        self._add(generation, attributes.CHOICE, generation.arrived, now, about, last=True)

    def _verified(self, generation: Generation, context: Context, part: Round) -> None:
        below = attributes.DECODE
        if generation.first is None:
            assert generation.admitted is not None
            below = attributes.PREFILL
            self._add(generation, below, generation.admitted, part.now, {})
        if self._leader is None:
            self._leader = _Leader(context, generation.id, below)
        else:
            self._others.append((context, Place(generation.id, attributes.CHOICE)))
        about: dict[str, Value] = {
            attributes.ROUND: generation.rounds,
            attributes.DRAFTED: part.drafted,
            attributes.ACCEPTED: part.accepted,
            attributes.EMITTED: part.taken,
        }
        if part.plain:
            about[attributes.PLAIN_REASON] = part.plain
            generation.happened(part.now, attributes.PLAIN_ROUND, {attributes.REASON: part.plain})
        if generation.binding is not None:
            about[attributes.DRAFTER] = generation.binding.drafter.node_id
            about[attributes.EPOCH] = generation.binding.epoch
        self.spans.add(
            Span(
                context=context,
                scope=generation.id,
                name=attributes.VERIFY,
                start=part.started,
                end=part.now,
                attributes=about,
                parent=below,
                links=((self._leader.context, Place(self._leader.scope, self._step_key)),),
            )
        )
        self._detokenised(generation, part.taken)

    def _detokenised(self, generation: Generation, taken: int) -> None:
        """The text of a round was made, after the step: also that of the first is a part of decoding."""
        if generation.timed is None or (spent := generation.timed.spent()) is None:
            return
        began, generation.written = spent
        about: dict[str, Value] = {
            attributes.ROUND: generation.rounds,
            attributes.EMITTED: taken,
        }
        self._add(
            generation,
            attributes.DETOKENISE,
            began,
            generation.written,
            about,
            parent=attributes.DECODE,
        )

    def _add(
        self,
        generation: Generation,
        name: str,
        start: float,
        end: float,
        about: dict[str, Value],
        *,
        parent: str = attributes.CHOICE,
        last: bool = False,
    ) -> None:
        """A span that lies below another, but for the choice's own."""
        assert generation.context is not None
        self.spans.add(
            Span(
                context=generation.context,
                scope=generation.id,
                name=name,
                start=start,
                end=end,
                attributes=about,
                parent="" if last else parent,
                key=name if name in NAMED else "",
                last=last,
                events=generation.happenings if last else (),
            )
        )

    @property
    def _step_key(self) -> str:
        return f"{attributes.STEP} {self._steps}"


def _ending(generation: Generation, reason: str, now: float) -> Ended:
    return Ended(
        request=generation.submit.request,
        choice=generation.choice,
        number=generation.id,
        reason=reason,
        prompt=len(generation.submit.tokens),
        tokens=len(generation.output.tokens),
        rounds=generation.rounds,
        drafted=generation.drafted,
        accepted=generation.accepted,
        seconds=round(now - generation.arrived, 6),
        trace=trace_number(generation.context),
    )
