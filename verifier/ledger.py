"""Everything that a verifier counts, each number at one place. Pure; names and meanings: `docs/observability.md`.

What always holds: 0 <= accepted <= drafted; emitted = accepted + rounds - cut; a later position is accepted no more
often than an earlier one; rounds with drafts and plain rounds are all rounds.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from protocol.facts import NEWEST, SIZES, Distribution, Rate, level, one, under
from protocol.messages import Facts
from verifier.drafting import PLAIN, REFUSALS, STALE, Drafting
from verifier.generation import Generation
from verifier.planner import REASONS, Choice, Outcome
from verifier.scheduler import Scheduler
from verifier.step import Round

ENDS: Final = ("stop", "length", "error", "abort")
UNANSWERED: Final = ("error", "abort")
HANDED: Final = ("taken", "refused", "aborted", "late", "fault", "link", "dropped")
"""How a hand-over ended: all of it is here; the prefill node would not, or gave up; nothing came in time; what came
cannot be; the link is over; the choice ended, or lost its pages."""


class Ledger:
    """Numbers since the process began. `draft_length` is how many positions of a window are listed at least.

    `lossy` is the acceptance rule, if the output does not follow the target's law under it.
    """

    def __init__(self, draft_length: int, lossy: str = "") -> None:
        self._lossy = lossy
        self._draft_length = draft_length
        self._steps = 0
        self._planned = 0
        self._choices: Counter[str] = (
            Counter()
        )  # steps with windows, by why they have these lengths
        self._turns = 0  # from drafting to rest, and back
        self._rests: bool | None = None
        self._expected = {"predicted": 0.0, "actual": 0.0}  # tokens a step, smoothed
        self._took = {"predicted": 0.0, "actual": 0.0}  # its seconds, smoothed
        self._drafting = Rate()  # output tokens of windows, over all time from step to step
        self._without = Rate()  # the same rounds with a token each, in steps without drafts
        self._rounds = 0
        self._drafted = 0
        self._windows: Counter[int] = Counter()  # rounds with drafts by how many there were
        self._accepted: Counter[int] = Counter()  # and by how many were accepted
        self._emitted = 0
        self._cut = 0
        self._plain: Counter[str] = Counter()  # rounds without drafts by why
        self._drafted_by: Counter[str] = Counter()  # node id
        self._accepted_by: Counter[str] = Counter()
        self._prompt_tokens = 0
        self._prefix_queries = 0
        self._prefix_hits = 0
        self._ended: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._handed: Counter[str] = Counter()  # hand-overs by how they ended
        self._handed_tokens = 0
        self._handed_bytes = 0
        self._handover = Distribution()
        self._first_token = Distribution()
        self._between = Distribution()
        self._whole = Distribution()
        self._queued = Distribution()
        self._prefill = Distribution()
        self._decode = Distribution()
        self._inference = Distribution()
        self._per_token = Distribution()
        self._step_seconds = Distribution()
        self._step_tokens = Distribution(SIZES)
        self._prompts = Distribution(SIZES)
        self._outputs = Distribution(SIZES)

    # --- what happens -----------------------------------------------------------------------------

    def refused(self, code: str) -> None:
        """A submission was not taken."""
        self._refused[code] += 1

    def admitted(self, generation: Generation) -> None:
        """It runs for the first time; what it shares of earlier prompts is known now."""
        if not generation.scoring:
            self._prefix_queries += len(generation.submit.tokens)
            self._prefix_hits += generation.cached

    def round(self, generation: Generation, part: Round) -> None:
        """A verdict was committed."""
        self._rounds += 1
        self._emitted += part.taken
        self._cut += part.accepted + 1 - part.taken
        if part.plain:
            self._plain[part.plain] += 1
        else:
            self._drafted += part.drafted
            self._windows[part.drafted] += 1
            self._accepted[part.accepted] += 1
            if (binding := generation.binding) is not None:
                self._drafted_by[binding.drafter.node_id] += part.drafted
                self._accepted_by[binding.drafter.node_id] += part.accepted
        if generation.first is None:
            self._prompt_tokens += len(generation.submit.tokens)
            self._first_token.observe(part.now - generation.arrived)
        else:
            self._between.observe(part.now - generation.last)

    def handed(self, outcome: str, tokens: int, seconds: float) -> None:
        """A hand-over ended; so many positions need not be computed here."""
        self._handed[outcome] += 1
        self._handed_tokens += tokens
        self._handover.observe(seconds)

    def arrived(self, size: int) -> None:
        """So many bytes of a hand-over were written."""
        self._handed_bytes += size

    def step(self, tokens: int, seconds: float) -> None:
        self._steps += 1
        self._step_tokens.observe(tokens)
        self._step_seconds.observe(seconds)

    def chosen(self, choice: Choice, planned: int, outcome: Outcome) -> None:
        """A step with windows: what was planned of it and why, and what came of it."""
        emitted = sum(each.emitted for each in outcome.parts)
        seconds = outcome.forward
        self._planned += planned
        self._choices[choice.reason] += 1
        if choice.reason != "probe":  # a trial decides nothing yet
            rests = choice.reason == "rest"
            self._turns += self._rests is not None and rests != self._rests
            self._rests = rests
        if choice.emitted is not None:
            _smooth(self._expected, choice.emitted, emitted)
        if choice.seconds is not None:
            _smooth(self._took, choice.seconds, seconds)
        share = choice.plain / choice.seconds if choice.seconds and choice.plain else 1.0
        self._drafting.add(emitted, outcome.cycle)
        self._without.add(len(outcome.parts), seconds * min(1.0, share))

    def ended(self, generation: Generation, reason: str, now: float) -> None:
        """A choice is over; only those that were answered to their end tell of times."""
        if reason == "refused":
            return  # it is counted as such
        if reason not in ENDS:
            reason = "abort"
        self._ended[reason] += 1
        if reason in UNANSWERED or generation.admitted is None or generation.first is None:
            return
        tokens = len(generation.output.tokens)
        self._whole.observe(now - generation.arrived)
        self._queued.observe(generation.admitted - generation.arrived)
        self._prefill.observe(generation.first - generation.admitted)
        self._decode.observe(now - generation.first)
        self._inference.observe(now - generation.admitted)
        if tokens > 1:
            self._per_token.observe((now - generation.first) / (tokens - 1))
        self._prompts.observe(len(generation.submit.tokens))
        self._outputs.observe(tokens)

    # --- what it comes to ---------------------------------------------------------------------------

    def facts(
        self,
        scheduler: Scheduler,
        drafting: Drafting,
        counters: Mapping[str, int],
        errors: Mapping[str, float],
        prefill_nodes: int = 0,
    ) -> Facts:
        pool, roster = scheduler.pool, drafting.roster
        by_drafter = {each.node_id: 0 for each in roster}
        bound = Counter[str]()  # two processes may claim one name
        for each in roster:
            bound[each.node_id] += each.bound
        return Facts(
            counters={
                "steps": one(self._steps),
                "steps_in_halves": one(drafting.pace.halves.steps),
                "rounds": one(self._rounds),
                "planned_tokens": one(self._planned),
                "wasted_tokens": one(
                    self._drafted - sum(a * rounds for a, rounds in self._accepted.items())
                ),
                "choices": dict.fromkeys(REASONS, 0) | self._choices,
                "drafting_changes": one(self._turns),
                "drafts": one(self._accepted.total()),
                "draft_tokens": one(self._drafted),
                "accepted_tokens": one(sum(a * rounds for a, rounds in self._accepted.items())),
                "drafted_at": self._reached(self._windows),
                "accepted_at": self._reached(self._accepted),
                "emitted_tokens": one(self._emitted),
                "cut_tokens": one(self._cut),
                "lossy_tokens": {self._lossy: self._emitted} if self._lossy else {},
                "plain_rounds": dict.fromkeys(PLAIN, 0) | self._plain,
                "drafted_by": by_drafter | self._drafted_by,
                "accepted_by": by_drafter | self._accepted_by,
                "stale_rows": under("rows_", counters, STALE),
                "refused_by_drafters": under("refused_", counters, REFUSALS),
                "bindings": one(drafting.bindings),
                "unbindings": dict(drafting.unbindings),
                "hidden_rows": one(drafting.hidden.counters["rows"] if drafting.hidden else 0),
                "hidden_bytes": one(drafting.hidden.counters["bytes"] if drafting.hidden else 0),
                "prompt_tokens": one(self._prompt_tokens),
                "prefix_queries": one(self._prefix_queries),
                "prefix_hits": one(self._prefix_hits),
                "handovers": dict.fromkeys(HANDED, 0) | self._handed,
                "handed_tokens": one(self._handed_tokens),
                "handed_bytes": one(self._handed_bytes),
                "preemptions": one(scheduler.preemptions),
                "requests_ended": dict.fromkeys(ENDS, 0) | self._ended,
                "requests_refused": dict(self._refused),
                "messages_unexpected": one(counters.get("messages_unexpected", 0)),
                "links_rejected": one(counters.get("links_rejected", 0)),
            },
            gauges={
                "step_emitted": dict(self._expected),
                "step_time": dict(self._took),
                "calibration_error": dict(errors),
                "decoding_rate": {"drafts": self._drafting.rate, "plain": self._without.rate},
                "running": level(len(scheduler.running)),
                "waiting": level(len(scheduler.waiting)),
                "pages": level(pool.pages),
                "pages_free": level(pool.free),
                "pages_used": level(1 - pool.free / pool.pages),
                "drafters": level(len(roster)),
                "prefill_nodes": level(prefill_nodes),
                "bound": {name: float(count) for name, count in bound.items()},
                "promptness": {each.node_id: each.prompt for each in roster},
            },
            histograms={
                "first_token_seconds": self._first_token.histogram(),
                "between_tokens_seconds": self._between.histogram(),
                "whole_seconds": self._whole.histogram(),
                "queued_seconds": self._queued.histogram(),
                "prefill_seconds": self._prefill.histogram(),
                "decode_seconds": self._decode.histogram(),
                "inference_seconds": self._inference.histogram(),
                "per_token_seconds": self._per_token.histogram(),
                "handover_seconds": self._handover.histogram(),
                "step_seconds": self._step_seconds.histogram(),
                "step_tokens": self._step_tokens.histogram(),
                "request_prompt_tokens": self._prompts.histogram(),
                "request_output_tokens": self._outputs.histogram(),
            },
        )

    def _reached(self, rounds: Counter[int]) -> dict[str, int]:
        """For each position of a window, in how many of these rounds (by length) it was reached."""
        length = max(self._draft_length, *self._windows, 0)
        reached = 0
        counts = {}
        for position in range(length, 0, -1):
            reached += rounds[position]
            counts[str(position - 1)] = reached
        return dict(reversed(counts.items()))


def _smooth(values: dict[str, float], predicted: float, actual: float) -> None:
    """Over the last fifty steps or so."""
    for name, value in (("predicted", predicted), ("actual", actual)):
        values[name] += NEWEST * (value - values[name]) if values[name] else value
