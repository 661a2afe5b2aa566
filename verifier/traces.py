"""Rounds as they were, for whoever replays them with other planners. Pure.

A round's tail is compared with what the request output after it: that is how many of its guesses were right, verified
or not. So a round is told when its request is over.
"""

from collections.abc import Sequence

import msgspec

from verifier.generation import Generation


class TracedRound(msgspec.Struct, frozen=True, tag="round"):
    """One request in one step. `position` counts its output tokens before the round; `right` of its tail were right."""

    step: int
    request: int
    position: int
    label: str
    confidences: tuple[float, ...]
    available: int
    right: int
    drafted: int
    accepted: int
    emitted: int
    reason: str


class TracedStep(msgspec.Struct, frozen=True, tag="step"):
    """`tokens` in `seconds`, in a cycle of `cycle`; `beside` of them for prompts. `rows` requests were decoding."""

    step: int
    rows: int
    tokens: int
    beside: int
    seconds: float
    cycle: float


class TracedEnd(msgspec.Struct, frozen=True, tag="end"):
    """A request is over, after so many output tokens."""

    request: int
    output: int


Line = TracedRound | TracedStep | TracedEnd


class _Tail(msgspec.Struct):
    round: TracedRound
    tokens: tuple[int, ...]


class Traces:
    """Collects lines until somebody takes them."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._open: dict[int, list[_Tail]] = {}
        self._tails: dict[int, tuple[int, str, tuple[int, ...], tuple[float, ...]]] = {}
        self._steps = 0
        self._reason = ""

    def planned(self, generations: Sequence[Generation], reason: str) -> None:
        """These choices decode in the next step; their tails are as they are now."""
        self._tails = {}
        self._reason = reason
        for each in generations:
            binding = each.binding
            tail = binding.tail if binding else None
            self._tails[each.id] = (
                len(each.output.tokens),
                binding.label if binding else "",
                tuple(tail.ahead) if tail else (),
                tuple(tail.confidences) if tail else (),
            )

    def committed(
        self, generation: Generation, drafted: int, accepted: int, emitted: int, *, plain: str
    ) -> None:
        """A round of a choice that was decoding."""
        if generation.id not in self._tails:
            return
        position, label, tokens, confidences = self._tails.pop(generation.id)
        made = TracedRound(
            step=self._steps,
            request=generation.id,
            position=position,
            label=label,
            confidences=confidences,
            available=len(tokens),
            right=0,
            drafted=drafted,
            accepted=accepted,
            emitted=emitted,
            reason=plain or self._reason,
        )
        self._open.setdefault(generation.id, []).append(_Tail(made, tokens))

    def stepped(self, rows: int, tokens: int, beside: int, seconds: float, cycle: float) -> None:
        """A step is over."""
        self.lines.append(TracedStep(self._steps, rows, tokens, beside, seconds, cycle))
        self._steps += 1

    def ended(self, generation: Generation) -> None:
        """A choice is over: now it is known which guesses were right."""
        output = generation.output.tokens
        for each in self._open.pop(generation.id, ()):
            after = output[each.round.position : each.round.position + len(each.tokens)]
            right = 0
            for guess, token in zip(each.tokens, after, strict=False):
                if guess != token:
                    break
                right += 1
            self.lines.append(msgspec.structs.replace(each.round, right=right))
        self.lines.append(TracedEnd(generation.id, len(output)))

    def take(self) -> list[Line]:
        lines, self.lines = self.lines, []
        return lines
