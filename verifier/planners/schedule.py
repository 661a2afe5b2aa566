"""Draft length by batch size: a slot for each size, and in it the length that recent acceptance asks for.

A slot smooths how many drafts were accepted a request, and every few batches compares that with thresholds half way
between the lengths it may choose (the adaptive schedule of SGLang, whose default table this is). A slot at length 0
has no signal, so it tries the next length every `probe_every` batches: a remote drafter must be kept in step for it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from verifier.config import PlannerConfig, SlotConfig
from verifier.planner import Candidate, Choice, Outcome, Steady, fit

PADDED: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Batch sizes that a captured graph would have."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What a slot knows: its length now, the smoothed number of accepted drafts, batches seen, batches at length 0."""

    length: int
    smoothed: float
    batches: int = 0
    rested: int = 0


def begun(config: SlotConfig, length: int | None = None) -> Slot:
    """A slot at `length` if it may have that, else at the middle one."""
    lengths = config.lengths
    chosen = length if length in lengths else lengths[len(lengths) // 2]
    assert chosen is not None
    return Slot(chosen, chosen - 1.0)


def learned(config: SlotConfig, slot: Slot, accepted: Sequence[int]) -> Slot:
    """After one more batch, with so many accepted drafts of each request."""
    if not accepted:
        return slot
    smoothed = slot.smoothed
    if slot.length:
        mean = sum(accepted) / len(accepted)
        smoothed += config.smoothing * (mean - smoothed)
    slot = replace(slot, smoothed=smoothed, batches=slot.batches + 1)
    if slot.length == 0:
        slot = replace(slot, rested=slot.rested + 1)
    decided = slot.batches - config.warm_up
    if decided <= 0 or decided % config.every:
        return slot
    return _decided(config, slot)


def _decided(config: SlotConfig, slot: Slot) -> Slot:
    lengths, length = config.lengths, slot.length
    place = lengths.index(length)
    if length == 0:
        if place + 1 == len(lengths) or slot.rested < config.probe_every:
            return slot
        higher = lengths[place + 1]
        known = slot.smoothed if slot.smoothed >= 0 else float(higher)
        return replace(slot, length=higher, smoothed=known, rested=0)
    start = place
    while place > 0:
        lower = lengths[place - 1]
        bar = (lower - 0.5 if lower else 0.5) + config.down
        if slot.smoothed > bar:
            break
        place -= 1
    if place == start:
        while place + 1 < len(lengths) and slot.smoothed > lengths[place] - 0.5 + config.up:
            place += 1
    if config.ceiling and lengths[place] <= length:
        most = max(1, ceil(slot.smoothed * config.ceiling))
        while place > 0 and lengths[place] > most:
            place -= 1
    return replace(slot, length=lengths[place], rested=0)


def slot_of(batch: int, sizes: Sequence[int], padded: Sequence[int] = PADDED) -> int:
    """The slot for so many requests: the size is padded up, then the largest slot that is not above it."""
    at = bisect_left(padded, batch)
    size = padded[at] if at < len(padded) else batch
    return sizes[max(0, bisect_right(sizes, size) - 1)]


class Schedule(Steady):
    """One length for all requests of a step."""

    def __init__(self, config: PlannerConfig) -> None:
        self._slots: Mapping[int, SlotConfig] = {
            size: config.schedule.slots[size] for size in sorted(config.schedule.slots)
        }
        self._sizes = tuple(self._slots)
        super().__init__(config, max(max(slot.lengths) for slot in self._slots.values()))
        self._state = {size: begun(slot) for size, slot in self._slots.items()}
        self._now = self._sizes[0]
        self._ahead = self.wanted

    def ahead(self, request: int) -> int:  # noqa: ARG002
        return self._ahead

    def enough(self, available: int) -> bool:
        return available >= min(self.most, self._state[self._now].length)

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        if not candidates:
            return []
        self._now = slot_of(len(candidates), self._sizes)
        length = min(self.most, self._state[self._now].length)
        self._ahead = self.wanted and min(self.wanted, 2 * length + 1 if length else 0)
        self.choice = Choice("set" if length else "rest")
        return fit([min(length, each.most) for each in candidates], budget)

    def learn(self, outcome: Outcome) -> None:
        super().learn(outcome)
        accepted = [each.accepted for each in outcome.parts]
        slot = self._state[self._now]
        self._state[self._now] = learned(self._slots[self._now], slot, accepted)
