"""The real front door without HTTP: `FrontNode` and its core, with clients that are functions."""

from functools import partial
from pathlib import Path

from orchestrator.front.config import FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Failure, Query, Reply
from orchestrator.front.node import FrontNode, Listener
from protocol.endpoint import Endpoint
from protocol.process import Command
from tests.sim.asks import Ask, Examiner, Setting, State
from tests.sim.breach import Breach

LOST = {"verifier_lost", "no_verifier", "draining"}


class Door:
    """Sends asks once a verifier is there. What a `Query` cannot say (deadlines, priorities) is not asked for."""

    def __init__(self, endpoint: Endpoint, setting: Setting, asks: list[Ask]) -> None:
        self.endpoint = endpoint
        self._setting = setting
        self._examiner = Examiner(setting)
        self._asks = asks
        self._core = FrontCore(FrontConfig(model=Path("hash"), name="hash", prefix_page=4))
        self._node = FrontNode(self._core, endpoint, setting.clock, _deliver)
        self._tickets: dict[int, Ask] = {}

    @property
    def stopped(self) -> bool:
        return self._node.stopped

    def command(self, command: Command) -> None:
        self._node.command(command)

    def turn(self) -> bool:
        now = self._setting.clock()
        ready = self._node.status().ready
        for ask in self._asks:
            if ask.state is State.NEW and now >= ask.begin and ready:
                self._submit(ask)
        for ticket, ask in self._tickets.items():
            if ask.state is State.SENT and now >= ask.cancel_at:
                ask.cancelled = now
                ask.state = State.DONE  # whoever left hears no end
                self._node.abort(ticket)
        ran = self._node.turn()
        self._look()
        return ran

    def pause(self) -> None:
        self._node.pause()

    def spread(self, asks: list[Ask]) -> None:
        """Ask them now; the core spreads them by load."""
        self._asks += asks
        self._node.wake()

    def clear_caches(self) -> None:
        """Nothing of the sort is said by this door."""

    def lose(self) -> None:
        """The process is gone, and with it whatever it waits for."""
        for ask in self._tickets.values():
            ask.state = State.FAILED if ask.state is State.SENT else ask.state

    def _submit(self, ask: Ask) -> None:
        wish = ask.submit
        query = Query(wish.tokens, wish.ending, wish.sampling, wish.choices)
        listener: Listener = partial(self._hear, ask)
        ask.state, ask.sent_at = State.SENT, self._setting.clock()
        self._tickets[self._node.submit(query, listener)] = ask

    def _look(self) -> None:
        """Where the asks are now."""
        for ticket, visit in self._core._visits.items():
            if visit.seat is not None:
                ask = self._tickets[ticket]
                ask.link, ask.verifier = visit.seat.link, visit.seat.node_id
                self._setting.answered[ask.link, ticket] = ask

    def _hear(self, ask: Ask, reply: Reply) -> None:
        if ask.cancelled is not None:
            raise Breach(f"request {ask.submit.request} hears {reply} although it left")
        if not isinstance(reply, Failure):
            self._examiner.answered(ask, reply)
        elif reply.code in LOST:
            self._examiner.lost(ask, reply.text)
        else:
            self._examiner.refused(ask, str(reply.code))


def _deliver(replies: list[tuple[Listener, Reply]]) -> None:
    for listener, reply in replies:
        listener(reply)
