"""The drafter as a pure state machine: mirrors follow their verifiers, run ahead to a bound, then sleep.

`handle` takes what came over links, `plan` says which mirrors want guesses, `settle` takes the proposals, `outbox` says
what a verifier must be told. The loop around it: `drafter/node.py`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from drafter.capabilities import HoldsDocuments, HoldsPages, Learns, TakesHidden, context
from drafter.config import DrafterConfig
from drafter.mirror import Mirror
from drafter.proposers import Proposal, Proposer
from drafter.record import Record
from protocol.errors import PeerError
from protocol.link import Event, LinkDown, LinkUp, Received
from protocol.messages import (
    AnyMessage,
    CorpusAdd,
    CorpusList,
    CorpusRemove,
    CorpusReport,
    DraftClose,
    DraftContext,
    DraftSync,
    Facts,
    Heartbeat,
    Refuse,
    Reset,
    VerifyCommit,
)
from protocol.outbox import Outbox


class DrafterCore:
    """All mirrors of one drafter."""

    def __init__(self, config: DrafterConfig, proposer: Proposer) -> None:
        self._config = config
        self._proposer = proposer
        self._context = context(config, proposer)
        self._max_ahead = config.max_ahead
        self.counters: Counter[str] = Counter()
        self.record = Record(config.method)
        self.verifiers: dict[int, str] = {}  # link: node id
        self.draining = False
        self._mirrors: dict[int, dict[int, Mirror]] = defaultdict(dict)  # link: request: mirror
        self._hungry: dict[Mirror, None] = {}  # in the order in which they became so
        self._outbox: Outbox[Mirror] = Outbox()

    def __len__(self) -> int:
        return sum(map(len, self._mirrors.values()))

    # --- events ---------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> None:
        """Take one event of a link; never raises for what a peer did."""
        match event:
            case LinkUp(role="verifier"):
                self.verifiers[event.link] = event.node_id
            case LinkDown():
                for mirror in list(self._mirrors.pop(event.link, {}).values()):
                    self._drop(mirror, event.reason, now)
                self.verifiers.pop(event.link, None)
                self._outbox.drop(event.link)
            case Received():
                for message in event.messages:
                    if type(message) is VerifyCommit:  # nearly all of them
                        self._commit(event.link, message, now)
                    else:
                        self._message(event.link, message, now)
            case _:
                pass

    def _message(self, link: int, message: AnyMessage, now: float) -> None:
        match message:
            case DraftSync():
                self._open(link, message, now)
            case DraftClose():
                mirror = self._mirrors[link].get(message.request)
                if mirror is not None and mirror.epoch == message.epoch:
                    self._close(mirror, message.reason, now)
            case DraftContext():
                self._hear_context(link, message, now)
            case CorpusAdd() | CorpusRemove() | CorpusList():
                self._outbox.note(link, self._corpus(message))
            case Reset():
                if isinstance(self._proposer, Learns):
                    self._proposer.reset()
            case Heartbeat():
                pass
            case _:
                self.counters["messages_unexpected"] += 1

    def _open(self, link: int, sync: DraftSync, now: float) -> None:
        former = self._mirrors[link].get(sync.request)
        if former is not None:
            self._close(former, "opened anew", now)
        length = len(sync.prompt) + len(sync.output)
        if self.draining:
            self._refuse(link, sync.request, sync.epoch, "draining", "the drafter is draining")
        elif self._context and length >= self._context:
            text = f"{length} tokens, this drafter takes {self._context}"
            self._refuse(link, sync.request, sync.epoch, "context", text)
        elif len(self) >= self._config.max_requests and not self._make_room(link, now):
            self._refuse(link, sync.request, sync.epoch, "full", f"{len(self)} mirrors are open")
        else:
            mirror = Mirror.open(link, sync)
            mirror.max_ahead = min(mirror.max_ahead, self._max_ahead)
            self._mirrors[link][sync.request] = mirror
            self._proposer.open(mirror)
            self._hungry[mirror] = None
            self.record.opened(mirror, sync.trace, self.verifiers.get(link, ""), now)
            self._take_hidden(mirror, sync, now)

    def _make_room(self, link: int, now: float) -> bool:
        """A full drafter is shared: whoever has most mirrors gives its newest to one that even then has no more."""
        most = max(self._mirrors.values(), key=len)
        if len(most) < len(self._mirrors[link]) + 2:
            return False
        mirror = next(reversed(most.values()))
        self._close(mirror, "shared", now)
        text = "a verifier that has fewer mirrors here needs the place"
        self._refuse(mirror.link, mirror.request, mirror.epoch, "full", text)
        return True

    def _commit(self, link: int, commit: VerifyCommit, now: float) -> None:
        mirror = self._mirrors[link].get(commit.request)
        if mirror is None or mirror.epoch != commit.epoch:
            self._refuse(link, commit.request, commit.epoch, "unknown", "no such mirror")
            return
        try:
            kept = mirror.adopt(commit)
        except PeerError as error:
            self._close(mirror, "fault", now)
            self._refuse(link, commit.request, commit.epoch, "unknown", str(error))
            return
        mirror.max_ahead = min(mirror.max_ahead, self._max_ahead)
        self._proposer.adopt(mirror, kept)
        if commit.hidden is not None and not self._take_hidden(mirror, commit, now):
            return
        if mirror.room:
            self._hungry[mirror] = None
        else:  # full, or nobody wants guesses: the base alone is news
            self._hungry.pop(mirror, None)
            self._outbox.news(link, mirror.request, mirror)

    def _hear_context(self, link: int, message: DraftContext, now: float) -> None:
        mirror = self._mirrors[link].get(message.request)
        if mirror is None or mirror.epoch != message.epoch:
            return  # whatever ended it was said already
        if self._take_hidden(mirror, message, now):
            mirror.exhausted = False  # rows may be what was missing
            if mirror.room:
                self._hungry[mirror] = None

    def _take_hidden(
        self, mirror: Mirror, message: DraftSync | VerifyCommit | DraftContext, now: float
    ) -> bool:
        """False: the rows cannot be, and the mirror is closed."""
        if message.hidden is None or not isinstance(self._proposer, TakesHidden):
            return True
        try:
            self._proposer.hidden(mirror, message.hidden_from, message.hidden)
        except PeerError as error:
            self._close(mirror, "fault", now)
            self._refuse(mirror.link, mirror.request, mirror.epoch, "unknown", str(error))
            return False
        return True

    def _refuse(self, link: int, request: int, epoch: int, code: str, text: str) -> None:
        self.counters[f"refused_{code}"] += 1
        refuse = Refuse(code=code, text=text, request=request, epoch=epoch)
        self._outbox.note(link, refuse)

    def _close(self, mirror: Mirror, reason: str, now: float) -> None:
        del self._mirrors[mirror.link][mirror.request]
        self._drop(mirror, reason, now)

    def _drop(self, mirror: Mirror, reason: str, now: float) -> None:
        self.record.closed(mirror, reason, self.verifiers.get(mirror.link, ""), now)
        self._hungry.pop(mirror, None)
        self._outbox.forget(mirror.link, mirror.request)
        self._proposer.close(mirror)

    def _corpus(self, command: CorpusAdd | CorpusRemove | CorpusList) -> CorpusReport:
        if not isinstance(self._proposer, HoldsDocuments):
            return CorpusReport((), f"method {self._config.method} holds no documents")
        library = self._proposer.corpora
        error = ""
        try:
            match command:
                case CorpusAdd():
                    library.add(command.name, command.documents, append=command.append)
                case CorpusRemove():
                    library.remove(command.name)
                case CorpusList():
                    pass
        except ValueError as refused:
            error = str(refused)
        return CorpusReport(tuple(library.entries()), error)

    # --- drafting -------------------------------------------------------------------------------

    def plan(self) -> list[tuple[Mirror, int]]:
        """Mirrors that want guesses, and how many at most; all others sleep."""
        return [(mirror, room) for mirror in self._hungry if (room := mirror.room)]

    def settle(
        self,
        wants: Sequence[tuple[Mirror, int]],
        proposals: Sequence[Proposal],
        started: float,
        now: float,
    ) -> None:
        """Take what the proposer made of a plan."""
        self.record.proposed(proposals, started, now)
        for (mirror, want), proposal in zip(wants, proposals, strict=True):
            if mirror not in self._hungry:
                continue  # it was closed meanwhile
            tokens, pending = proposal.tokens, proposal.pending
            self.record.drafted(mirror, len(tokens), started, now)
            mirror.extend(tokens, proposal.confidences, proposal.laws)
            if len(tokens) == want:
                del self._hungry[mirror]
            elif not pending:
                mirror.exhausted = True
                del self._hungry[mirror]
            if tokens or (mirror.unsaid and not pending):
                self._outbox.news(mirror.link, mirror.request, mirror)

    def outbox(self, link: int) -> list[AnyMessage]:
        """What this verifier must be told now, in order; the caller says it, or the link ends."""
        return self._outbox.take(link, _rows)

    @property
    def links_with_news(self) -> list[int]:
        """Links that must be told something."""
        return self._outbox.links

    def facts(self) -> Facts:
        """What this drafter counted since it began."""
        pool = self._proposer.pool if isinstance(self._proposer, HoldsPages) else None
        return self.record.facts(len(self), self.counters, pool)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat("draining" if self.draining else "ready", len(self))


def _rows(mirror: Mirror) -> Sequence[AnyMessage]:
    return (mirror.take(),) if mirror.unsaid else ()
