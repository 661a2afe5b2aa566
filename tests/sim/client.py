"""A front door that asks, listens and believes nothing: whatever it hears is compared with plain decoding."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from protocol.endpoint import Endpoint
from protocol.link import Event, LinkDown, LinkUp, Received
from protocol.loop import Dialled, pause
from protocol.messages import Abort, AnyMessage, Done, Emit, Heartbeat, Refuse, Reset, Submit
from protocol.process import Command, Peers
from tests.sim.breach import Breach
from tests.sim.model import Chain, Plain, plain, text_of


ABORTED_WITHIN = 0.8
"""Seconds between an `Abort` or a deadline and the end, when nothing is in the way."""


class State(StrEnum):
    """Where an ask stands."""

    NEW = "new"
    SENT = "sent"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"  # its link, or its front door, went


@dataclass(slots=True)
class Heard:
    """What was heard of one choice."""

    tokens: list[int] = field(default_factory=list)
    marks: list[bool] = field(default_factory=list)
    text: str = ""
    done: Done | None = None


@dataclass(slots=True, eq=False)
class Ask:
    """One request of a history. `refusals` are the codes that it may be answered with; `cancel_at` aborts it."""

    submit: Submit
    begin: float
    cancel_at: float = float("inf")
    refusals: frozenset[str] = frozenset()
    state: State = State.NEW
    link: int = 0
    sent_at: float = 0.0
    cancelled: float | None = None  # when that was said
    heard: dict[int, Heard] = field(default_factory=dict)
    plains: dict[int, Plain] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.state not in {State.NEW, State.SENT}

    @property
    def drafted(self) -> int:
        """Accepted drafts that its answers report."""
        done = [heard.done for heard in self.heard.values() if heard.done]
        return sum(each.statistics.accepted for each in done)

    def plain(self, chain: Chain, choice: int) -> Plain:
        """What plain decoding answers."""
        if choice not in self.plains:
            self.plains[choice] = plain(chain, self.submit, choice)
        return self.plains[choice]


@dataclass(slots=True)
class Setting:
    """What a client shares with its history."""

    clock: Callable[[], float]
    chain: Chain
    pick: Callable[[int], int]  # below n
    excused: Callable[[str], bool]  # may a link with this verifier end?
    hindered: Callable[[str], bool]  # may this verifier be slow?
    answered: dict[tuple[int, int], Ask] = field(default_factory=dict)  # by (link, request)


class Client:
    """One front-door process; a new one knows nothing of the asks of the former."""

    def __init__(self, endpoint: Endpoint, setting: Setting, asks: list[Ask]) -> None:
        self.endpoint = endpoint
        self.stopped = False
        self._setting = setting
        self._asks = asks
        self._dialled = Dialled(endpoint)
        self._links: dict[int, str] = {}  # link: verifier
        self._by_number: dict[tuple[int, int], Ask] = {}
        self._outbox: dict[int, list[AnyMessage]] = {}

    def command(self, command: Command) -> None:
        if isinstance(command, Peers):
            for event in self._dialled.update(command.addresses, self._setting.clock()):
                self._handle(event)

    def turn(self) -> bool:
        now = self._setting.clock()
        for event in self.endpoint.drain(now):
            self._handle(event)
        for ask in self._asks:
            if ask.state is State.NEW and now >= ask.begin and self._links:
                links = list(self._links)
                self._submit(ask, links[self._setting.pick(len(links))])
            if ask.state is State.SENT and now >= ask.cancel_at and ask.cancelled is None:
                ask.cancelled = now
                self._outbox[ask.link].append(Abort(ask.submit.request, "changed its mind"))
        for link, messages in self._outbox.items():
            if messages and self.endpoint.send(link, messages, now):
                messages.clear()
        return False

    def pause(self) -> None:
        now = self._setting.clock()
        times = [time for ask in self._asks for time in (ask.begin, ask.cancel_at) if time > now]
        pause(self.endpoint, self._setting.clock, min(times, default=float("inf")))

    def spread(self, asks: list[Ask]) -> None:
        """Ask each verifier equally often."""
        links = list(self._links)
        self._asks += asks
        for index, ask in enumerate(asks):
            self._submit(ask, links[index % len(links)])
        self.endpoint.mesh.wake()

    def clear_caches(self) -> None:
        """Tell every verifier to forget what it learned."""
        for messages in self._outbox.values():
            messages.append(Reset())

    def lose(self) -> None:
        """The process is gone, and with it whatever it waits for."""
        for ask in self._by_number.values():
            ask.state = State.FAILED if ask.state is State.SENT else ask.state

    @property
    def links(self) -> int:
        return len(self._links)

    def _submit(self, ask: Ask, link: int) -> None:
        ask.state, ask.link, ask.sent_at = State.SENT, link, self._setting.clock()
        self._by_number[link, ask.submit.request] = ask
        self._setting.answered[link, ask.submit.request] = ask
        self._outbox[link].append(ask.submit)

    def _handle(self, event: Event) -> None:
        match event:
            case LinkUp(role="verifier"):
                self._links[event.link] = event.node_id
                self._outbox[event.link] = []
            case LinkDown() if event.link in self._links:
                self._down(event)
            case Received():
                for message in event.messages:
                    self._hear(event.link, message)

    def _down(self, event: LinkDown) -> None:
        del self._outbox[event.link]
        verifier = self._links.pop(event.link)
        if not self._setting.excused(verifier):
            raise Breach(f"the link with {verifier} ended without a fault: {event.reason}")
        for ask in self._by_number.values():
            if ask.state is State.SENT and ask.link == event.link:
                ask.state = State.FAILED

    def _hear(self, link: int, message: AnyMessage) -> None:
        match message:
            case Emit() | Done():
                self._answer(self._by_number[link, message.request], message)
            case Refuse(request=int(request)):
                self._refused(self._by_number[link, request], message)
            case Heartbeat():
                pass
            case _:
                raise Breach(f"a front door does not expect {message}")

    def _refused(self, ask: Ask, refuse: Refuse) -> None:
        allowed = refuse.code in ask.refusals or (
            refuse.code == "draining" and self._setting.excused(self._links[ask.link])
        )
        if ask.heard or ask.over or not allowed:
            raise Breach(f"refused: {refuse}")
        ask.state = State.REFUSED

    def _answer(self, ask: Ask, message: Emit | Done) -> None:
        choice = message.choice
        heard = ask.heard.setdefault(choice, Heard())
        where = f"request {message.request} choice {choice}"
        if "invalid" in ask.refusals:
            raise Breach(f"{where}: an invalid request was served")
        if heard.done or choice >= ask.submit.choices or ask.state is not State.SENT:
            raise Breach(f"{where}: {message} after its end")
        if isinstance(message, Emit):
            heard.tokens += message.tokens
            heard.marks += message.drafted
            heard.text += message.text
            wanted = ask.plain(self._setting.chain, choice)
            if tuple(heard.tokens) != wanted.tokens[: len(heard.tokens)]:
                raise Breach(f"{where}: {heard.tokens}, not {wanted.tokens}")
            return
        heard.done = message
        self._check_prompt_end(where, ask)
        self._check_end(where, ask, heard, message)
        if len(ask.heard) == ask.submit.choices and all(each.done for each in ask.heard.values()):
            ask.state = State.DONE

    def _check_end(self, where: str, ask: Ask, heard: Heard, done: Done) -> None:
        wanted = ask.plain(self._setting.chain, done.choice)
        whole = (tuple(heard.tokens), heard.text, done.reason)
        if done.reason == "abort":
            self._check_abort(where, ask, done)
            if heard.text != text_of(heard.tokens):
                raise Breach(f"{where}: text {heard.text!r} of {heard.tokens}")
        elif whole != (wanted.tokens, wanted.text, wanted.reason):
            raise Breach(f"{where}: {whole}, not {(wanted.tokens, wanted.text, wanted.reason)}")
        counts, size = done.statistics, len(heard.tokens)
        if (done.prompt_tokens, done.output_tokens) != (len(ask.submit.tokens), size):
            raise Breach(f"{where}: usage of {done} for {size} tokens")
        most = counts.accepted + counts.rounds
        exact = done.reason != "stop"
        if not counts.rounds <= size <= most or (exact and size != most):
            raise Breach(f"{where}: {counts} for {size} tokens")
        if counts.accepted > counts.drafted or sum(heard.marks) > counts.accepted:
            raise Breach(f"{where}: {counts} for {sum(heard.marks)} marked tokens")
        if len(heard.marks) != size or counts.cached_tokens >= len(ask.submit.tokens):
            raise Breach(f"{where}: {len(heard.marks)} marks, {counts.cached_tokens} cached")

    def _check_prompt_end(self, where: str, ask: Ask) -> None:
        ends = [float("inf") if ask.cancelled is None else ask.cancelled]
        if ask.submit.deadline is not None:
            ends.append(ask.sent_at + ask.submit.deadline)
        late = self._setting.clock() > min(ends) + ABORTED_WITHIN
        if late and not self._setting.hindered(self._links[ask.link]):
            raise Breach(f"{where}: ends long after its Abort or deadline")

    def _check_abort(self, where: str, ask: Ask, done: Done) -> None:
        late = ask.submit.deadline is not None and (
            self._setting.clock() >= ask.begin + ask.submit.deadline
        )
        if not (ask.cancelled is not None or (late and done.detail == "deadline")):
            raise Breach(f"{where}: aborted ({done.detail}), and nobody asked for it")
