"""Whether one half of the requests is verified while the other half is drafted, and who sits a step out. Pure.

Drafters that begin only when a verdict is known (block drafters, anything with `--overlap off`, whatever lies behind a
long way) leave the target idle while they guess, if all requests are verified at once. In halves both sides work all
the time, for smaller steps. Which is faster follows from what steps and answers took: `docs/planning.md`, issue 6.
"""

from collections.abc import Collection, Sequence
from typing import Final, Literal

from verifier.costs import Costs, CostTable

When = Literal["never", "auto", "always"]

SOONER: Final = 1.05
"""Halves must be predicted to be so much faster before they begin..."""
LATER: Final = 1.0
"""...and not slower than this to go on."""
EVERY: Final = 256
"""Steps in halves after which all are verified at once again..."""
TRIED: Final = 4
"""...for so many, and answers are measured anew: one that comes while a step runs is heard behind it, however quick."""
SMOOTH: Final = 0.05


class Halves:
    """What was learned about steps and answers. `when`: never, always, or where it is predicted to be faster."""

    def __init__(self, when: When = "auto") -> None:
        self.apart = False
        self.steps = 0  # that left somebody out
        self._forwards = Costs()  # of steps, by their tokens
        self._when = when
        self._answers = Costs()  # by how many requests were told a verdict at once
        self._told: dict[int, tuple[float, int]] = {}  # request: when, with how many others
        self._width = 1.0  # tokens of a window
        self._gain = 0.0  # accepted drafts of a window
        self._sat: frozenset[int] = frozenset()
        self._turns = 0  # steps in halves since all were verified at once

    # --- what is learned ----------------------------------------------------------------------------

    def told(self, requests: Collection[int], now: float) -> None:
        """Verdicts on these requests were said to their drafters."""
        for each in requests:
            self._told[each] = (now, len(requests))

    def answered(self, request: int, now: float) -> float | None:
        """A drafter's guesses follow the newest verdict on this request; how many seconds they took, if that is new."""
        if (told := self._told.pop(request, None)) is None:
            return None
        self._answers.learn(told[1], now - told[0])
        return now - told[0]

    def forget(self, request: int) -> None:
        """This request is over, or its drafter is."""
        self._told.pop(request, None)

    def stepped(self, tokens: int, seconds: float, windows: Sequence[tuple[int, int]]) -> None:
        """A step of so many tokens; of its windows with drafts, how long each was and how much of it was accepted."""
        self._forwards.learn(tokens, seconds)
        if windows:
            width = 1 + sum(drafts for drafts, _ in windows) / len(windows)
            gain = sum(accepted for _, accepted in windows) / len(windows)
            self._width += SMOOTH * (width - self._width) if self._width > 1 else width - 1
            self._gain += SMOOTH * (gain - self._gain)

    # --- what follows -------------------------------------------------------------------------------

    def left_out(
        self, ready: Sequence[int], late: Sequence[int], patience: float
    ) -> frozenset[int]:
        """Who sits the next step out, of requests with a drafter: those whose guesses are on their way, or the later
        half if all have come. Nobody twice in a row; nobody while all are late: those are waited for as ever.

        `ready` begins with who waits longest; a step waits `patience` seconds at most.
        """
        out: frozenset[int] = frozenset()
        pays = self._pays(len(ready) + len(late), patience)
        self.apart = pays and self._turns < EVERY
        if self.apart and ready:
            half = (len(ready) + len(late) + 1) // 2
            fresh = [each for each in (late or ready[half:]) if each not in self._sat]
            out = frozenset(fresh)
        return out

    def sat(self, out: Collection[int]) -> None:
        """A step was made without these."""
        self._sat = frozenset(out)
        self.steps += bool(out)
        if self.apart or self._turns >= EVERY:
            self._turns = (self._turns + 1) % (EVERY + TRIED)
        if self._turns == EVERY:
            self._answers = Costs()
            self._told.clear()

    def _pays(self, requests: int, patience: float) -> bool:
        """Whether halves bring more tokens a second than all at once, as far as anything is known of both."""
        forwards, answers = self._forwards.table, self._answers.table
        if self._when != "auto" or requests < 2:
            return self._when == "always" and requests > 1
        if forwards is None or answers is None:
            return False
        half = (requests + 1) // 2

        def verify(rows: int) -> float:
            return hoped(forwards, max(rows, round(rows * self._width)))

        def speed(windows: float, wait: float, plain: float) -> float:
            """Tokens of a request a second; guesses that come after the patience are of no use."""
            return (1 + self._gain) / windows if wait <= patience else 1 / plain

        whole, part = verify(requests), verify(half)
        draft, draft_part = hoped(answers, requests), hoped(answers, half)
        plain = hoped(forwards, requests)
        together = speed(whole + draft, draft, plain)
        halves = speed(2 * max(part, draft_part), draft_part - part, plain)
        return halves > (LATER if self.apart else SOONER) * together


def hoped(table: CostTable, size: int) -> float:
    """Seconds as measured; for less than anything that was, in proportion: if that is too good, trying it shows it."""
    least = table.tokens[0]
    return table.seconds[0] * size / least if size < least else table.cost(0, size)
