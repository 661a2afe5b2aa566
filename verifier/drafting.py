"""The verifier's side of speculation: who drafts for whom, what drafters are told, what they answered. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from protocol import attributes
from protocol.errors import PeerError
from protocol.link import LinkUp
from protocol.messages import (
    AnyMessage,
    DraftClose,
    DraftContext,
    DraftSync,
    DraftTailStream,
    Heartbeat,
    Refuse,
    Report,
    VerifyCommit,
)
from protocol.outbox import Outbox
from verifier.acceptance import Slices
from verifier.generation import Binding, Generation
from verifier.halves import Halves, When
from verifier.hidden import NOTHING, Hidden
from verifier.pace import Pace
from verifier.planner import Planner
from verifier.roster import Roster
from verifier.step import Round, Work
from verifier.tail import DraftTail, Row

PLAIN: Final = (
    "off", "prefill", "no_drafter", "waiting", "late", "no_tail", "no_room", "rest", "waste",
)  # fmt: skip
"""Why a round had no drafts: none are wanted, it was the end of a prompt, there is no drafter, none would take the
request now, the drafter has not answered yet, it had no guess, the limits of the request or the step left no room, the
planner lets drafters rest, or found no guess worth its place."""
NOT_ITS_PART: Final = frozenset({"off", "prefill", "no_room", "rest", "waste"})
"""Reasons for a plain round that say nothing of the drafter."""
REFUSALS: Final = ("unknown", "full", "context", "draining", "other", "stale")
"""Why drafters refused requests; stale: it was about a binding that is over."""
TOO_LATE: Final = 16
"""Rounds without an answer after which a drafter is too slow for a request, if another would take it..."""
FORGIVEN: Final = 4
"""...(an answer in time makes up for so many of them)..."""
TOO_LONG: Final = 0.5
"""...and seconds; twice as many each time that a request moved for this reason, so that it comes to rest somewhere."""
STALE: Final = ("cut", "faulty", "unknown_request", "other_epoch")
"""Why a row was dropped: it continues a line that was cut, it cannot be true, its request is over or bound anew."""


class Drafting:
    """Bindings between generations and drafters. Whatever goes wrong here costs speed, never a token."""

    def __init__(
        self,
        planner: Planner,
        vocabulary: int,
        counters: Counter[str],
        slices: Slices = Slices(),
        *,
        halves: When = "auto",
    ) -> None:
        self.roster = Roster()
        self.outbox: Outbox[Generation] = Outbox()
        self.hidden: Hidden | None = None
        self._planner = planner
        self._vocabulary = vocabulary
        self._counters = counters
        self._slices = slices
        self.pace = Pace(planner, Halves(halves))
        self.bindings = 0
        self.unbindings: Counter[str] = Counter()  # by why

    # --- links ----------------------------------------------------------------------------------

    def link_up(self, up: LinkUp) -> None:
        self.roster.add(up)

    def link_down(self, link: int, generations: Iterable[Generation], now: float) -> None:
        """All that was bound there is unbound at once."""
        self.roster.remove(link)
        self.outbox.drop(link)
        for generation in generations:
            if generation.binding and generation.binding.drafter.link == link:
                _left(generation, "link", now)
                generation.binding = None
                self.pace.halves.forget(generation.id)
                self.unbindings["link"] += 1

    def heard(
        self,
        link: int,
        message: Heartbeat | Report,
        generations: Iterable[Generation],
        now: float,
    ) -> None:
        """What a drafter says of itself; what is bound to one that drains moves before it stops."""
        self.roster.heard(link, message, now)
        if isinstance(message, Heartbeat) and message.state == "draining":
            for generation in generations:
                if generation.binding and generation.binding.drafter.link == link:
                    self._leave(generation, "draining", now)

    # --- bindings ---------------------------------------------------------------------------------

    def bind(self, generations: Iterable[Generation], now: float) -> None:
        """Give a drafter to every generation that has none and may have one."""
        if not self._planner.wanted or not len(self.roster):
            return
        for generation in generations:
            if generation.binding is not None or not self._planner.ahead(generation.id):
                continue
            drafter = self.roster.choose(len(generation.line), generation.waits, now)
            if drafter is None:
                continue
            generation.epoch += 1
            tail = DraftTail(generation.output.tokens, self._vocabulary)
            label = " ".join(filter(None, (drafter.method, generation.submit.adapter)))
            generation.binding = Binding(
                drafter, generation.epoch, tail, label=label, kept_up_at=now
            )
            if self.hidden is not None:
                generation.binding.told_hidden = self.hidden.first(generation)
            self.bindings += 1
            drafter.bound += 1
            generation.happened(now, attributes.BOUND, {attributes.DRAFTER: drafter.node_id})
            self.outbox.news(drafter.link, generation.id, generation)

    def unbind(self, generation: Generation, reason: str) -> None:
        """The drafter is told, if it ever heard of the request. Idempotent."""
        binding = generation.binding
        if binding is None:
            return
        generation.binding = None
        self.unbindings[reason] += 1
        self.pace.halves.forget(generation.id)
        binding.drafter.bound -= 1
        self.outbox.forget(binding.drafter.link, generation.id)
        if binding.told is not None:
            close = DraftClose(generation.id, binding.epoch, reason)
            self.outbox.note(binding.drafter.link, close)

    def _leave(self, generation: Generation, reason: str, now: float) -> None:
        """Unbind, and wait before it binds there again."""
        binding = generation.binding
        assert binding is not None
        _left(generation, reason, now)
        self.unbind(generation, reason)
        generation.waits.refused(binding.drafter.link, reason, now)

    def judged(self, generation: Generation, part: Round) -> None:
        """A verdict on a choice: how much its drafter helped, and whether it is too slow to stay with."""
        binding = generation.binding
        if binding is None or part.plain in NOT_ITS_PART:
            return
        binding.drafter.gained(part.accepted)
        if part.plain != "late":
            binding.late = max(0, binding.late - FORGIVEN)
            if not binding.late:
                binding.kept_up_at = part.now
            return
        binding.late += 1
        patience = TOO_LONG * 2**generation.moves
        if binding.late < TOO_LATE or part.now - binding.kept_up_at < patience:
            return
        able = self.roster.able(len(generation.line), generation.waits, part.now)
        if any(each is not binding.drafter for each in able):
            generation.moves += 1
            binding.drafter.doubted = True
            self._leave(generation, "slow", part.now)

    def committed(self, generation: Generation, tokens: list[int]) -> None:
        """These tokens became final: the tail settles, the drafter will be told."""
        binding = generation.binding
        if binding is None:
            return
        binding.tail.commit(tokens)
        if binding.told is not None and self._rests(generation, binding):
            binding.held = True
            return
        if binding.drafter.takes_length(len(generation.line)):
            self.outbox.news(binding.drafter.link, generation.id, generation)
            self.pace.committed(generation.id)
        else:
            self.unbind(generation, "context")
            generation.waits.refused(binding.drafter.link, "context", 0.0)

    def wake(self, generations: Iterable[Generation]) -> None:
        """Tell the drafters of those that rest no longer what they missed, in one message each."""
        for generation in generations:
            binding = generation.binding
            if binding is not None and binding.held and not self._rests(generation, binding):
                binding.held = False
                binding.woken = binding.tail.committed
                self.committed(generation, [])

    def _rests(self, generation: Generation, binding: Binding) -> bool:
        """A drafter that reads hidden states is never left behind: its rows would pile up here."""
        return not self._planner.ahead(generation.id) and not binding.drafter.needs

    def computed(self, generation: Generation) -> None:
        """More of its line was computed: a drafter that needs hidden states is sent them."""
        binding = generation.binding
        if self.hidden is not None and binding is not None and binding.drafter.needs:
            self.outbox.news(binding.drafter.link, generation.id, generation)

    # --- what drafters say --------------------------------------------------------------------------

    def row(self, link: int, row: DraftTailStream, known: Generation | None, now: float) -> None:
        """A row for `known`, the generation of that number; what is stale is counted and dropped."""
        if known is None:
            self._counters["rows_unknown_request"] += 1
            return
        if (binding := _bound(known, link, row.epoch)) is None:
            self._counters["rows_other_epoch"] += 1
            known.happened(now, attributes.STALE_DRAFTS, {attributes.REASON: "other_epoch"})
            return
        try:
            if binding.tail.receive(row) is Row.CUT:
                self._counters["rows_cut"] += 1
                known.happened(now, attributes.STALE_DRAFTS, {attributes.REASON: "cut"})
        except PeerError:
            self._counters["rows_faulty"] += 1
            binding.drafter.gained(0)
            self._leave(known, "fault", now)
            return
        binding.drafter.doubted = False
        if binding.tail.answered:
            self.pace.answered(known.id, binding.drafter, now)

    def refused(self, link: int, refuse: Refuse, known: Generation | None, now: float) -> None:
        """The drafter will not have this request: it waits before it binds there again."""
        if known is None or (binding := _bound(known, link, refuse.epoch)) is None:
            self._counters["refused_stale"] += 1
            return
        binding.drafter.gained(0)
        code = refuse.code if refuse.code in REFUSALS else "other"
        self._counters[f"refused_{code}"] += 1
        _left(known, f"refused: {code}", now)
        self.unbind(known, "refused")
        known.waits.refused(link, refuse.code, now)

    def why_plain(self, generation: Generation, work: Work) -> str:
        """Why a choice took part in a step without drafts; empty where it had some."""
        if work.drafts:
            return ""
        if len(work.tokens) > 1:
            return "prefill"
        if not self._planner.wanted:
            return "off"
        if not self._planner.ahead(generation.id):
            return "rest" if len(self.roster) else "no_drafter"
        if (binding := generation.binding) is None:
            return "waiting" if len(self.roster) else "no_drafter"
        return self._why_none(binding.tail)

    def _why_none(self, tail: DraftTail) -> str:
        if tail.ahead:
            return "waste" if self._planner.choice.reason in {"waste", "worth"} else "no_room"
        return "no_tail" if tail.answered else "late"

    @property
    def reports(self) -> list[Report]:
        """The newest of each live drafter, by the name that it has here; of two of one name, the older's."""
        found: dict[str, Report] = {}
        for each in self.roster:
            if each.report is not None:
                found.setdefault(each.node_id, each.report)
        return list(found.values())

    # --- pace -----------------------------------------------------------------------------------------

    def stepped(self, started: float, now: float) -> None:
        """A step ended, and its verdicts are said."""
        self.roster.stepped(now - started)
        self.pace.stepped(now)

    # --- what drafters are told -----------------------------------------------------------------------

    def messages(self, link: int) -> list[AnyMessage]:
        """What fits into the next frame to this drafter."""
        if self.hidden is None:
            return self.outbox.take(link, self.tell)
        self.hidden.begin()
        messages = self.outbox.take(link, self.tell)
        for generation in self.hidden.behind:
            self.outbox.news(link, generation.id, generation)
        return self.hidden.filled(messages)

    def tell(self, generation: Generation) -> Iterator[AnyMessage]:
        """What the drafter of this generation must know, all of it in one message."""
        binding = generation.binding
        if binding is None:
            return
        output = generation.output.tokens
        max_ahead = self._max_ahead(generation, binding)
        span = self.hidden.take(generation, binding) if self.hidden is not None else None
        start, rows = (span.start, NOTHING) if span is not None else (0, None)
        if binding.told is None:
            yield DraftSync(
                request=generation.id,
                epoch=binding.epoch,
                prompt=generation.submit.tokens,
                output=tuple(output),
                max_ahead=max_ahead,
                sampling=generation.submit.sampling,
                adapter=generation.submit.adapter,
                choice=generation.choice,
                slice=self._slices.size,
                fresh=self._slices.fresh,
                trace=generation.submit.trace,
                hidden_from=start,
                hidden=rows,
            )
        elif binding.told < len(output):
            yield VerifyCommit(
                request=generation.id,
                epoch=binding.epoch,
                start=binding.told,
                tokens=tuple(output[binding.told :]),
                max_ahead=max_ahead,
                hidden_from=start,
                hidden=rows,
            )
        elif rows is not None:
            yield DraftContext(generation.id, binding.epoch, start, rows)
            return
        else:
            return
        binding.told = len(output)
        binding.tail.grant(max_ahead)

    def _max_ahead(self, generation: Generation, binding: Binding) -> int:
        """A fixed bound would cap the speed at that many tokens a round trip: what is on its way is added."""
        tail = binding.tail
        known = max(tail.base, binding.woken)
        outstanding = tail.committed - known if tail.base >= 0 else 0
        wanted = self._planner.ahead(generation.id) + outstanding
        limit = binding.drafter.limits.max_ahead
        return min(wanted, limit) if limit else wanted


def _left(generation: Generation, reason: str, now: float) -> None:
    """Its drafter does not draft for it any more, though it goes on."""
    if generation.binding is not None:
        drafter = generation.binding.drafter.node_id
        about = {attributes.DRAFTER: drafter, attributes.REASON: reason}
        generation.happened(now, attributes.LEFT, about)


def _bound(generation: Generation, link: int, epoch: int) -> Binding | None:
    """The binding that a message of this link and epoch is about, if it still is one."""
    binding = generation.binding
    if binding is None or binding.drafter.link != link or binding.epoch != epoch:
        return None
    return binding
