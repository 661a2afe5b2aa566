"""A drafter that lies: it keeps the rules of links, and says whatever it likes on them."""

import random
from collections.abc import Callable

from protocol.endpoint import Endpoint
from protocol.link import LinkDown, LinkUp, Received
from protocol.loop import pause
from protocol.messages import (
    Abort,
    AnyMessage,
    DraftClose,
    DraftSync,
    DraftTailStream,
    Emit,
    Ending,
    Heartbeat,
    Refuse,
    Submit,
    VerifyCommit,
)
from protocol.process import Command, Stop
from tests.sim.breach import holds

EVERY = 0.015
CODES = ("unknown", "full", "context", "draining", "link", "", "x" * 40)


class Liar:
    """Takes requests like a drafter. `manners` (0 to 1) is how often a row is such that it must be believed."""

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Callable[[], float],
        rng: random.Random,
        manners: float,
        vocabulary: int,
    ) -> None:
        self.endpoint = endpoint
        self.stopped = False
        self._clock = clock
        self._rng = rng
        self._manners = manners
        self._vocabulary = vocabulary
        self._next = 0.0
        self.open: set[tuple[int, int, int]] = set()  # (link, request, epoch), kept faithfully
        self._known: dict[int, dict[int, tuple[int, int]]] = {}  # link: request: (epoch, base)

    def command(self, command: Command) -> None:
        self.stopped = isinstance(command, Stop)

    def turn(self) -> bool:
        now = self._clock()
        for event in self.endpoint.drain(now):
            match event:
                case LinkUp():
                    self._known[event.link] = {}
                case LinkDown():
                    del self._known[event.link]
                    self.open = {each for each in self.open if each[0] != event.link}
                case Received():
                    for message in event.messages:
                        self._hear(event.link, message)
        if now >= self._next:
            self._next = now + EVERY
            for link in self._known:
                self.endpoint.send(
                    link, [self._say(link) for _ in range(self._rng.randint(1, 3))], now
                )
            self.endpoint.heartbeat = Heartbeat(
                self._rng.choice(("ready", "ready", "draining", "?"))
            )
        return False

    def pause(self) -> None:
        pause(self.endpoint, self._clock, self._next)

    def _hear(self, link: int, message: AnyMessage) -> None:
        match message:
            case DraftSync():
                others = [each for each in self.open if each[:2] == (link, message.request)]
                holds(not others, "a mirror was opened beside another:", others, message)
                self.open.add((link, message.request, message.epoch))
                self._known[link][message.request] = (message.epoch, len(message.output))
            case VerifyCommit():
                base = message.start + len(message.tokens)
                self._known[link][message.request] = (message.epoch, base)
            case DraftClose():
                self.open.discard((link, message.request, message.epoch))
                if self._rng.random() < 0.5:
                    self._known[link].pop(message.request, None)

    def _say(self, link: int) -> AnyMessage:
        rng = self._rng
        known = self._known[link]
        request = rng.choice(list(known)) if known and rng.random() < 0.9 else rng.randint(0, 9)
        epoch, base = known.get(request, (1, 0))
        if rng.random() < self._manners:
            size = rng.randint(0, 3)
            return DraftTailStream(request, epoch, base, base, self._tokens(size, self._vocabulary))
        epoch = max(0, epoch + rng.choice((0, 0, 0, -1, 1)))
        if rng.random() < 0.2:
            return self._nonsense(request, epoch)
        base = max(0, base + rng.choice((0, 0, 0, 0, -3, -1, 1, 2, 1 << 20)))
        start = max(0, base + rng.choice((0, 0, 0, 0, -2, -1, 1, 3, 1 << 20)))
        size = self._vocabulary
        limit = rng.choice((size, size, size + 1, 1 << 31))
        tokens = self._tokens(rng.choice((0, 1, 2, 2, 5, 12, 200)), limit)
        sure = tuple(rng.random() for _ in range(rng.choice((0, len(tokens), len(tokens) + 1))))
        parents = rng.choice((None, None, tuple(range(-1, len(tokens) - 1)), (7,)))
        return DraftTailStream(request, epoch, base, start, tokens, sure, parents=parents)

    def _tokens(self, size: int, limit: int) -> tuple[int, ...]:
        return tuple(self._rng.randrange(limit) for _ in range(size))

    def _nonsense(self, request: int, epoch: int) -> AnyMessage:
        rng = self._rng
        nonsense: tuple[AnyMessage, ...] = (
            Refuse(rng.choice(CODES), request=request, epoch=epoch),
            Refuse("full", epoch=epoch),
            Submit(request, (1, 2, 3), Ending(5)),
            Emit(request, 0, (1,), "lie"),
            Abort(request),
            DraftClose(request, epoch),
            Heartbeat("draining"),
        )
        return rng.choice(nonsense)
