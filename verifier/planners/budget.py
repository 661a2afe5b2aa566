"""The confidence budget: every step verifies the drafts that make most tokens a second of it, across all requests.

What a draft is worth is its survival, the product of calibrated confidences up to it; what it costs is read from a
table. Whether drafters run at all at a load, and whether one request has one, is decided by what that brought.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from verifier.calibration import BINS, POSITIONS, UNKNOWN, Calibration
from verifier.config import PlannerConfig
from verifier.costs import Costs, CostTable
from verifier.planner import Candidate, Choice, Looks, Outcome, Seen, Steady
from verifier.planners.admission import Numbers, admitted, packed
from verifier.planners.regime import Regime

TRUSTED: Final = 24
"""Rounds after which a request is judged by what drafts brought it."""
FIRST_REST: Final = 64
LONGEST_REST: Final = 1024
FAINT: Final = 1e-3
"""A draft less likely to be kept never enters, even where its place costs nothing."""
LEAN: Final = 6.0
"""Kept drafts that a request must have more or less than others before it is treated apart."""


@dataclass(slots=True)
class Story:
    """Of one request: tokens that drafts brought a round, smoothed; how many of them calibration promised."""

    rounds: int = 0
    gain: float = 0.0
    kept: float = LEAN
    promised: float = LEAN
    rest: int = 0  # rounds without a drafter that are left
    next_rest: int = FIRST_REST

    @property
    def factor(self) -> float:
        """How its guesses fare beside those of others of the same class."""
        return min(self.kept / self.promised, 1.0)


class Budget(Steady):
    """`careful`: sizes follow from finished positions alone, so that no confidence decides about its own token."""

    def __init__(self, config: PlannerConfig, table: CostTable | None = None) -> None:
        super().__init__(config)
        own = config.budget
        self._careful = config.careful
        self._least = own.least
        self._probes = (own.probe_steps, own.probe_every)
        self.looks = Looks.NOTHING if config.careful else Looks.AHEAD
        self.costs = Costs(table)
        self.calibration = Calibration()
        self._regimes: dict[int, Regime] = {}
        self._now: Regime = self._regime(1)
        self._stories: dict[int, Story] = {}
        self._factors: dict[int, float] = {}  # of stories, for the whole batch at once

    # --- what drafters are asked --------------------------------------------------------------------

    def ahead(self, request: int) -> int:
        story = self._stories.get(request)
        rests = story is not None and story.rest > 0
        return 0 if rests or not self._now.drafting else self.wanted

    def enough(self, available: int) -> bool:
        return available >= min(self.most, 2)

    def _regime(self, rows: int) -> Regime:
        """Loads between two powers of two are one. A new one begins as the nearest is used to."""
        key = rows.bit_length()
        if key not in self._regimes:
            known = [each for each, regime in self._regimes.items() if regime.known]
            near = min(known, key=lambda each: (abs(each - key), -each), default=None)
            usual = near is None or self._regimes[near].usual  # of two, the higher load
            self._regimes[key] = Regime(*self._probes, rows=1 << (key - 1), usual=usual)
        return self._regimes[key]

    # --- lengths ------------------------------------------------------------------------------------

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:
        rows = len(candidates)
        if not rows:
            return []
        self._now = self._regime(rows)
        table = self.costs.table
        if not self._now.drafting or not self.most:
            seconds = table.cost(rows, rows + beside) if table else None
            self.choice = Choice("probe" if self._now.trial else "rest", rows, seconds, seconds)
            return [0] * rows
        count = max(0, min(budget, rows * self.most)) + 1
        costs = self.costs.of(rows, rows + beside, count)
        best = admitted(self._survivals(candidates), costs, FAINT)
        worth = "worth" if any(best.lengths) else "waste"
        reason = "probe" if self._now.trial else worth
        expected = (best.seconds, float(costs[0])) if table else (None, None)
        self.choice = Choice(reason, best.emitted, *expected)
        return best.lengths

    def _survivals(self, candidates: Sequence[Candidate]) -> Numbers:
        positions = self.most
        confidences_RP, held_RP = packed(candidates, positions)
        if self._careful:
            classes_RP = np.full(confidences_RP.shape, UNKNOWN)
        else:
            classes_RP = np.minimum((confidences_RP * BINS).astype(np.int64), BINS - 1)
            classes_RP[confidences_RP < 0] = UNKNOWN
        places_P = np.minimum(np.arange(positions), POSITIONS - 1)
        labels = {each.label for each in candidates}
        if len(labels) == 1:
            chances_PC = self.calibration.of(labels.pop()).chances
            classes_RP += places_P * chances_PC.shape[1]
            chances_RP = chances_PC.take(classes_RP)  # half the time of two indices
        else:
            names = sorted(labels)
            chances = np.stack([self.calibration.of(name).chances for name in names])
            which = np.array([names.index(each.label) for each in candidates])
            chances_RP = chances[which[:, None], places_P, classes_RP]
        factor = self._factors.get
        factors = np.array([factor(each.request, 1.0) for each in candidates])
        made: Numbers = np.cumprod(chances_RP * held_RP, axis=1)
        made *= factors[:, None]  # the same for all its positions, so that they still never rise
        return made

    # --- what is learned ----------------------------------------------------------------------------

    def learn(self, outcome: Outcome) -> None:
        super().learn(outcome)
        rows = len(outcome.parts)
        if not rows:
            return
        drafting = self._now.drafting
        begun = sum(each.request not in self._stories for each in outcome.parts)
        for each in outcome.parts:
            story = self._stories.setdefault(each.request, Story())
            if story.rest:
                story.rest -= 1
            elif drafting:
                self._judge(story, each.accepted)
            if each.drafted:
                self._promise(story, each)
                label = self.calibration.of(each.label)
                label.learn(each.confidences, each.drafted, each.accepted)
        for regime in self._regimes.values():
            regime.began(begun)
        if outcome.beside:
            return
        emitted = sum(each.emitted for each in outcome.parts)
        self.costs.learn(outcome.tokens, outcome.forward)
        table = self.costs.table
        plain = table.cost(rows, rows) if table else None
        self._now.learn(emitted / rows, outcome.cycle, plain)

    def _judge(self, story: Story, accepted: int) -> None:
        """A request that drafts bring next to nothing goes without a drafter for a while, twice as long each time."""
        story.rounds += 1
        story.gain += (accepted - story.gain) / min(story.rounds, TRUSTED)
        if story.rounds >= TRUSTED and story.gain < self._least:
            story.rest, story.rounds = story.next_rest, 0
            story.next_rest = min(2 * story.next_rest, LONGEST_REST)
        elif story.gain > 4 * self._least and story.rounds >= TRUSTED:
            story.next_rest = FIRST_REST

    def _promise(self, story: Story, each: Seen) -> None:
        """How its guesses fare beside what calibration promises of them."""
        said = each.confidences
        chances = self.calibration.of(each.label).chances
        survival, promised = 1.0, 0.0
        for position in range(each.drafted):
            known = position < len(said) and not self._careful
            column = min(int(said[position] * BINS), BINS - 1) if known else UNKNOWN
            survival *= float(chances[min(position, POSITIONS - 1), column])
            promised += survival
        story.kept += each.accepted - 0.05 * (story.kept - LEAN)
        story.promised += promised - 0.05 * (story.promised - LEAN)
        self._factors[each.request] = story.factor

    @property
    def errors(self) -> Mapping[str, float]:
        return {
            f"{name} {when}": error
            for name, label in self.calibration.labels.items()
            if label.errors.positions
            for when, error in zip(("before", "after"), label.errors[:2], strict=True)
        }

    def forget(self, request: int) -> None:
        self._stories.pop(request, None)
        self._factors.pop(request, None)
