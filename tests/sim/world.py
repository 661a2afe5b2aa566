"""The simulated world: a clock that only turns move, a network, and whose turn it is. One seed, one history."""

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import count

from protocol.codec import HEADER, Kind
from protocol.local_mesh import LocalNetwork
from protocol.mesh import Frames
from tests.sim.asks import Ask
from tests.sim.breach import Breach
from tests.sim.drafter_rules import check_drafter
from tests.sim.link_rules import check_links
from tests.sim.model import Chain
from tests.sim.places import FOREVER, Place
from tests.sim.prefill_rules import check_prefill
from tests.sim.roles import DrafterPlace, FrontPlace, PrefillPlace, VerifierPlace
from tests.sim.scenario import ROOMY, Nature, Scenario, invent
from tests.sim.trace import Entry
from tests.sim.verifier_rules import check_verifier, watch_step
from tests.sim.weather import Weather, on_grid
from verifier.step import Step

APART = 0.3
"""How often verifiers of a history have devices that compute while their hosts do other things."""
SPONTANEOUS = 0.03
"""How often a node takes a turn without a reason."""


class World:
    """Everything of one history. All randomness is drawn from `rng`, all time is read from `clock`.

    What it is about is invented, unless a `scenario` is given.
    """

    def __init__(
        self, seed: int, remember: int | None = 300, scenario: Scenario | None = None
    ) -> None:
        self.rng = random.Random(seed)
        device = random.Random(f"{seed} device")  # the rest of a history does not hang on it
        self._apart = device.random() < APART
        self.now = 0.0
        self.turns = 0
        self.frames = 0  # that nodes sent
        self.dozed = False
        self.numbers: set[int] = set()  # every dial and link that was drawn
        self.trace: deque[Entry] = deque(maxlen=remember)
        self.covered: Counter[str] = Counter()  # what happened, by what it is called
        self.answered: dict[tuple[int, int], Ask] = {}  # by (link, request)
        self.scenario = scenario or invent(self.rng)
        self.chain = Chain(self.scenario.vocabulary)
        self.weather = Weather(self.rng, self.clock)
        self.network = LocalNetwork(self.clock, self.weather.fate, self.scenario.bound)
        self._serial = count()
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._tainted: set[frozenset[str]] = set()
        self._long_forward = -1e9
        self._ahead = 0.0  # seconds that the node whose turn it is has computed so far
        self.verifiers = {
            address: VerifierPlace(self, address, config)
            for address, config in self.scenario.verifiers.items()
        }
        self.drafters = {
            address: DrafterPlace(self, address, sketch)
            for address, sketch in self.scenario.drafters.items()
        }
        self.prefill = {
            address: PrefillPlace(self, address, sketch)
            for address, sketch in self.scenario.prefill.items()
        }
        self.fronts = {
            address: FrontPlace(self, address, sketch)
            for address, sketch in self.scenario.fronts.items()
        }
        self.places: list[Place] = [
            *self.verifiers.values(),
            *self.drafters.values(),
            *self.prefill.values(),
            *self.fronts.values(),
        ]
        for drafter in self.drafters.values():
            drafter.gone = drafter.sketch.nature is Nature.ABSENT
        for place in self.places:
            if not place.gone:
                place.start()
                if self.rng.random() < 0.15:
                    place.frozen_until = on_grid(self.rng.uniform(0.0, 0.8))

    # --- what nodes are given -------------------------------------------------------------------

    def clock(self) -> float:
        """The time as whoever takes a turn sees it: later after a forward, which others do not wait for."""
        return self.now + self._ahead

    def some_clock(self) -> float:
        """How much later it is on some machine: clocks have nothing in common."""
        return on_grid(self.rng.uniform(0.0, 1000.0))

    def draft_forward(self, pace: float) -> None:
        """A forward of a draft model takes its time."""
        if pace:
            self._ahead += on_grid(pace * self.rng.random())

    def number(self) -> int:
        """A dial or a link."""
        number = self.rng.getrandbits(64)
        self.numbers.add(number)
        return number

    def sent(self, source: str, target: str, frames: Frames, taken: bool) -> None:
        """A message goes out. One that is refused is held back, but a greeting or its answer is lost."""
        if not taken and HEADER.unpack(frames[0])[2] not in {Kind.BEAT, Kind.DATA}:
            self.taint(source, target)
        self.frames += 1
        self.trace.append((self.clock(), source, target, frames))

    def note(self, text: str) -> None:
        self.trace.append((self.now, text, "", ()))

    def forward(self, tokens: int) -> None:
        """A forward of the target takes its time; now and then it is over its bound."""
        seconds = self.scenario.slowness * (self.rng.uniform(0.003, 0.015) + 0.0002 * tokens)
        if self.now > self._long_forward + 2.0 and self.rng.random() < 0.02:
            self._long_forward = self.now
            seconds = 0.26
        self._ahead += on_grid(seconds)

    def computing(self, place: Place, tokens: int) -> Callable[[], bool]:
        """A verifier begins a forward: what says whether it is done.

        With a device, each time it is asked time passes to the next message that arrives meanwhile, or to the end.
        """
        began = self._ahead
        self.forward(tokens)
        end = self._ahead
        if not self._apart:
            return lambda: True
        self._ahead = began

        def done() -> bool:
            due = place.due_next - self.now
            self._ahead = min(max(self._ahead, due), end)
            return due > end

        return done

    def watch_step(self, place: VerifierPlace, step: Step) -> None:
        watch_step(self, place, step)

    # --- faults and their excuses ------------------------------------------------------------------

    def taint(self, one: str, other: str | None = None) -> None:
        """A fault touched this pair (or this node): their links may end."""
        others = self.scenario.addresses if other is None else [other]
        self._tainted.update(frozenset({one, each}) for each in others)

    def excused(self, one: str, other: str) -> bool:
        """Whether a fault may have ended their link; any link, if it is nobody's."""
        if (
            not other or self.scenario.bound < ROOMY
        ):  # one sender's delayed messages fill the inbox for all
            return not self.untouched
        return frozenset({one, other}) in self._tainted

    def hindered(self, one: str, other: str) -> bool:
        """Whether anything may have kept them from answering each other at once."""
        return self.dozed or self.excused(one, other)

    @property
    def untouched(self) -> bool:
        """Whether no fault has touched anything so far."""
        return not self._tainted

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do this at `time`, between two turns."""
        heapq.heappush(self._plans, (on_grid(time), next(self._serial), action))

    # --- time -----------------------------------------------------------------------------------

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Turn after turn until `done` or until this time; whether it was done."""
        while not done():
            self._carry_out()
            dues = [(place.due(), place) for place in self.places]
            ready = [place for due, place in dues if due <= self.now]
            if self.rng.random() < SPONTANEOUS:
                ready += [place for place in self.places if place.free_at <= self.now]
            if ready:
                self._turn(self.rng.choice(ready))
            else:  # nobody has a reason to move now: on to the next time when somebody has
                plan = self._plans[0][0] if self._plans else FOREVER
                self.now = max(self.now, min(plan, *(due for due, _ in dues)))
            if self.now > until:
                return False
        return True

    def _carry_out(self) -> None:
        while self._plans and self._plans[0][0] <= self.now:
            heapq.heappop(self._plans)[2]()

    @staticmethod
    def _supervise(place: Place) -> None:
        if not place.alive and not place.gone:
            place.start()

    def _turn(self, place: Place) -> None:
        self.turns += 1
        ran = place.turn()
        if isinstance(place, VerifierPlace):
            check_verifier(self, place, ran=ran)
        elif isinstance(place, DrafterPlace) and place.honest:
            check_drafter(self, place)
        elif isinstance(place, PrefillPlace):
            check_prefill(place)
        check_links(self, place)
        if place.spinning:
            raise Breach(f"{place.address} takes turns for nothing")
        if place.node is not None and place.node.stopped:
            self.note(f"{place.address} has drained")
            place.node.endpoint.close()
            place.stop()
            self.at(self.now + self.rng.uniform(0.0, 0.5), partial(self._supervise, place))
        place.busy_until, self._ahead = self.clock(), 0.0
        self.now += on_grid(self.rng.expovariate(3000.0))
