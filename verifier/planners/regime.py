"""Whether drafting pays at all at a load: both ways are tried now and then, for a bounded share of the time. Pure.

A few steps with drafters and a few without are compared by tokens a second, everything counted: what drafters take from
the verifier's cores, what they say, what is waited for. A trial that changes nothing is repeated after twice as long,
but what was learned of other requests says little of new ones: once as many have begun as the load has, drafts are
tried again.
"""

from dataclasses import dataclass
from typing import Final

SETTLE: Final = 3
"""Steps after a change that count for neither: drafters must catch up first."""
ENTER: Final = 1.04
LEAVE: Final = 1.0
"""Times the speed of plain steps: drafting begins above the one and ends below the other. In doubt nobody drafts."""
OBVIOUS: Final = 1.3
"""Times the speed of plain steps."""
HOPELESS: Final = 0.85
UNLIKELY: Final = 0.95
"""Times the speed of plain steps, which is thought, or was measured: what is this slow after a glance need not be
looked at longer."""
GLANCE: Final = 6
"""Steps with drafts."""
LONGEST: Final = 16
"""How often the time between trials doubles at most, as a factor."""
PASSING: Final = 2
"""Trials that a load's first rest lasts: many loads are only passed through, on the way up or down."""
BREATH: Final = 2
"""Trials that a rest lasts at least, whoever begins meanwhile."""
LONG_BREATH: Final = 16
"""The same where trials for those who began keep finding that drafts do not pay: less than a tenth of the steps."""
MEMORY: Final = 0.98
OUTLIER: Final = 4.0


@dataclass(slots=True)
class Rate:
    """Tokens of a request a second, newest steps first."""

    tokens: float = 0.0
    seconds: float = 0.0
    steps: int = 0

    def learn(self, tokens: float, seconds: float) -> None:
        if self.steps > 4 and seconds > OUTLIER * self.seconds / self._weight:
            return  # something else took that time
        self.tokens = MEMORY * self.tokens + tokens
        self.seconds = MEMORY * self.seconds + seconds
        self.steps += 1

    @property
    def _weight(self) -> float:
        return (1 - MEMORY**self.steps) / (1 - MEMORY)

    @property
    def value(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


class Regime:
    """Of one load, so many requests at least: `drafting` says what to do in the next step, `trial` whether that is to
    find out. It begins with what is `usual` at the nearest load that is known, and looks at the other soon.
    """

    def __init__(
        self, probe_steps: int, probe_every: int, rows: int = 1, *, usual: bool = True
    ) -> None:
        self._rows = rows
        self._steps = probe_steps
        self._every = probe_every
        self.usual = usual
        self.trial = False
        self.changes = 0
        self._left = probe_steps if usual else PASSING * probe_steps  # steps until this ends
        self._wait = probe_every
        self._settle = SETTLE
        self._breath = BREATH
        # What drafts made of plain steps' speed in the last trials, each half as much as the one after it: so few steps
        # tell it to within a tenth.
        self._gain: float | None = None
        self._asked = False  # is this trial one for those who began
        self._begun = 0  # requests since the last trial
        self._rested = 0  # steps since then
        self._rates = {True: Rate(), False: Rate()}

    @property
    def known(self) -> bool:
        """Whether a step was ever made at this load."""
        return any(rate.steps for rate in self._rates.values())

    @property
    def drafting(self) -> bool:
        return self.usual is not self.trial

    def began(self, requests: int) -> None:
        """So many requests are new, at whatever load."""
        self._begun += requests
        stale = self._begun >= self._rows and self._rested >= self._breath * self._steps
        if stale and not self.usual and not self.trial:
            self._try()
            self._asked = True

    def learn(self, tokens: float, seconds: float, plain: float | None = None) -> None:
        """A step brought so many tokens a request in so much time; a plain one is thought to take `plain`."""
        self._rested += 1
        if self._settle:
            self._settle -= 1
            return
        self._rates[self.drafting].learn(tokens, seconds)
        self._left -= 1
        if self._left > 0 and not self._hopeless(plain):
            return
        if self.trial:
            self._judge()
        elif self._obvious(plain):
            self._wait = min(2 * self._wait, LONGEST * self._every)
            self._left = self._wait
        else:
            self._try()

    def _try(self) -> None:
        self._rates[not self.usual] = Rate()
        self.trial = True
        self._left = self._steps
        self._settle = SETTLE

    def _obvious(self, plain: float | None) -> bool:
        """Drafting brings so much that no trial is needed: drafters cannot take that much from a plain step."""
        return self.usual and plain is not None and self._rates[True].value * plain > OBVIOUS

    def _hopeless(self, plain: float | None) -> bool:
        """Drafting is so slow that the rest of its time is better spent without."""
        rate, measured = self._rates[True], self._rates[False]
        if not self.drafting or rate.steps < GLANCE:
            return False
        if measured.steps:
            return self.trial and rate.value < UNLIKELY * measured.value
        return plain is not None and rate.value * plain < HOPELESS

    def _judge(self) -> None:
        drafting, plain = self._rates[True].value, self._rates[False].value
        found = drafting / plain if plain else 1.0
        self._gain = found if self._gain is None else (self._gain + found) / 2
        self.trial = False
        if self._gain < LEAVE if self.usual else self._gain > ENTER:
            self.usual = not self.usual
            self.changes += 1
            self._wait = self._every
            self._breath = BREATH
        else:
            if self._asked:
                self._breath = min(2 * self._breath, LONG_BREATH)
            self._wait = min(2 * self._wait, LONGEST * self._every)
        self._left = self._wait
        self._settle = SETTLE
        self._asked = False
        self._begun = self._rested = 0
