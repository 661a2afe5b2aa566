"""A front door without a core: it submits, listens and resubmits nothing."""

from msgspec.structs import replace

from protocol.endpoint import Endpoint
from protocol.link import Event, LinkDown, LinkUp, Received
from protocol.loop import Dialled, pause
from protocol.messages import (
    Abort,
    AnyMessage,
    Done,
    DraftClose,
    DraftSync,
    DraftTailStream,
    Emit,
    Refuse,
    Reset,
    Submit,
    VerifyCommit,
)
from protocol.process import Command, Peers
from tests.sim.asks import Ask, Examiner, Setting, State
from tests.sim.breach import Breach


class Client:
    """One front-door process; a new one knows nothing of what the former has sent."""

    def __init__(self, endpoint: Endpoint, setting: Setting, asks: list[Ask]) -> None:
        self.endpoint = endpoint
        self.stopped = False
        self._setting = setting
        self._examiner = Examiner(setting)
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

    def _submit(self, ask: Ask, link: int) -> None:
        ask.state, ask.link, ask.verifier = State.SENT, link, self._links[link]
        ask.sent_at = self._setting.clock()
        self._use_again(ask)
        self._by_number[link, ask.submit.request] = ask
        self._setting.answered[link, ask.submit.request] = ask
        self._outbox[link].append(ask.submit)

    def _use_again(self, ask: Ask) -> None:
        """Now and then a number is used again that an answer on this link has made free."""
        free = [
            number
            for (link, number), former in self._by_number.items()
            if link == ask.link and former.state is State.DONE and former is not ask
        ]
        if free and self._setting.pick(3) == 0:
            number = free[self._setting.pick(len(free))]
            ask.submit = replace(ask.submit, request=number)

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
                self._examiner.lost(ask, event.reason)

    def _hear(self, link: int, message: AnyMessage) -> None:
        match message:
            case Emit() | Done():
                self._examiner.answered(self._by_number[link, message.request], message)
            case Refuse(request=int(request)):
                self._examiner.refused(self._by_number[link, request], message.code)
            case (
                DraftTailStream() | VerifyCommit() | DraftSync() | DraftClose() | Submit() | Abort()
            ):
                raise Breach(f"a front door does not expect {message}")
