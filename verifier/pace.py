"""When the next step begins: who is waited for, how long, and who sits it out. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from verifier.generation import Binding, Generation
from verifier.halves import Halves
from verifier.planner import Planner
from verifier.roster import Drafter

SHORT: Final = 0.15
"""Seconds that a step may wait whatever drafters usually take: a stream does not feel it..."""
USUAL: Final = 3.0
"""...and how many times longer than usual, if that is more: one that is frozen must not hold up every step."""
SMOOTH: Final = 0.1


class _Drafted(NamedTuple):
    """A request whose next window may hold drafts; `late`: they are on their way."""

    generation: Generation
    drafter: Drafter
    late: bool


class Pace:
    """Waiting for tails that are on their way: no longer than the planner has patience, nor far longer than usual."""

    def __init__(self, planner: Planner, halves: Halves) -> None:
        self.halves = halves
        self.patient_until = 0.0  # when waiting ends; 0 if nobody waits
        self._planner = planner
        self._usual = 0.0  # seconds that answers take, smoothed
        self._committed: list[int] = []  # requests whose drafters are to be told a verdict

    # --- what happens -------------------------------------------------------------------------------

    def committed(self, request: int) -> None:
        """A verdict on this request goes to its drafter."""
        self._committed.append(request)

    def stepped(self, now: float) -> None:
        """A step ended: from now on, tails may be waited for."""
        patience = min(self._planner.patience, max(SHORT, USUAL * self._usual))
        self.patient_until = now + patience if patience else 0.0
        self.halves.told(self._committed, now)
        self._committed.clear()

    def answered(self, request: int, drafter: Drafter, now: float) -> None:
        """The tail of this request follows its newest verdict."""
        if (took := self.halves.answered(request, now)) is not None:
            self._usual += SMOOTH * (took - self._usual) if self._usual else took
        if now < self.patient_until:
            drafter.answered(in_time=True)

    # --- what follows -------------------------------------------------------------------------------

    def sitting_out(self, running: Iterable[Generation], now: float) -> frozenset[int] | None:
        """Requests that sit the next step out, as its two halves take turns; None: tails are worth waiting for."""
        drafted = self._drafted(running)
        out = self._left_out(drafted)
        late = [each.drafter for each in drafted if each.late and each.generation.id not in out]
        if self._worth_waiting(late, now):
            return None
        self.halves.sat(out)
        return out

    def _left_out(self, drafted: Sequence[_Drafted]) -> frozenset[int]:
        prompt = [each for each in drafted if each.drafter.mostly_prompt]
        prompt.sort(key=lambda each: (each.generation.last, each.generation.id))
        return self.halves.left_out(
            [each.generation.id for each in prompt if not each.late],
            [each.generation.id for each in prompt if each.late],
            self._planner.patience,
        )

    def _worth_waiting(self, late: Sequence[Drafter], now: float) -> bool:
        """Whether the tails of these, which are on their way, are worth the planned patience."""
        if not self.patient_until:
            return False
        if late and now < self.patient_until:
            if any(drafter.worth_waiting() for drafter in late):
                return True
        elif late:
            for drafter in late:
                drafter.answered(in_time=False)
        self.patient_until = 0.0
        return False

    def _drafted(self, running: Iterable[Generation]) -> Sequence[_Drafted]:
        return [
            _Drafted(each, each.binding.drafter, self._late(each.binding))
            for each in running
            if each.binding is not None and each.todo == 1 and self._planner.ahead(each.id)
        ]

    def _late(self, binding: Binding) -> bool:
        return not binding.tail.answered and not self._planner.enough(len(binding.tail.ahead))
