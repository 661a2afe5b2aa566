"""When the next step begins: who is waited for, how long, and who sits it out. Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from verifier.generation import Binding, Generation
from verifier.halves import Halves
from verifier.planner import Planner
from verifier.roster import Drafter


class _Drafted(NamedTuple):
    """A request whose next window may hold drafts; `late`: they are on their way."""

    generation: Generation
    drafter: Drafter
    late: bool


class Pace:
    """Waiting for tails that are on their way, no longer than the planner has patience."""

    def __init__(self, planner: Planner, halves: Halves) -> None:
        self.halves = halves
        self.patient_until = 0.0  # when waiting ends; 0 if nobody waits
        self._planner = planner
        self._committed: list[int] = []  # requests whose drafters are to be told a verdict

    # --- what happens -------------------------------------------------------------------------------

    def committed(self, request: int) -> None:
        """A verdict on this request goes to its drafter."""
        self._committed.append(request)

    def stepped(self, now: float) -> None:
        """A step ended: from now on, tails may be waited for."""
        self.patient_until = now + self._planner.patience if self._planner.patience else 0.0
        self.halves.told(self._committed, now)
        self._committed.clear()

    def answered(self, request: int, drafter: Drafter, now: float) -> None:
        """The tail of this request follows its newest verdict."""
        self.halves.answered(request, now)
        if now < self.patient_until:
            drafter.answered(in_time=True)

    # --- what follows -------------------------------------------------------------------------------

    def left_out(self, running: Iterable[Generation]) -> frozenset[int]:
        """Requests that sit the next step out, as its two halves take turns."""
        drafted = [each for each in self._drafted(running) if each.drafter.mostly_prompt]
        drafted.sort(key=lambda each: (each.generation.last, each.generation.id))
        return self.halves.left_out(
            [each.generation.id for each in drafted if not each.late],
            [each.generation.id for each in drafted if each.late],
            self._planner.patience,
        )

    def waits(self, running: Iterable[Generation], left_out: Collection[int], now: float) -> bool:
        """Whether tails are on their way that are worth the planned patience; else a step is made without these."""
        if self._worth_waiting(running, left_out, now):
            return True
        self.halves.sat(left_out)
        return False

    def _worth_waiting(
        self, running: Iterable[Generation], left_out: Collection[int], now: float
    ) -> bool:
        if not self.patient_until:
            return False
        late = [
            each.drafter
            for each in self._drafted(running)
            if each.late and each.generation.id not in left_out
        ]
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
