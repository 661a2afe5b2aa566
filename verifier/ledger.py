"""Everything that a verifier counts, each number at one place. Pure; names and meanings: `docs/observability.md`.

What always holds: 0 <= accepted <= drafted; emitted = accepted + rounds - cut; a later position is accepted no more
often than an earlier one; rounds with drafts and plain rounds are all rounds.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from protocol.facts import SIZES, Distribution, level, one, under
from protocol.messages import Facts
from verifier.drafting import PLAIN, REFUSALS, STALE, Drafting
from verifier.generation import Generation
from verifier.planner import REASONS, Choice
from verifier.scheduler import Scheduler
from verifier.step import Round

ENDS: Final = ("stop", "length", "error", "abort")
UNANSWERED: Final = ("error", "abort")


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
        self._lengths_changed = 0
        self._length: float | None = None
        self._expected = {"predicted": 0.0, "actual": 0.0}  # tokens a step, smoothed
        self._took = {"predicted": 0.0, "actual": 0.0}  # its seconds, smoothed
        self._rounds = 0
        self._drafted = 0
        self._accepted: Counter[int] = Counter()  # rounds with drafts by how many were accepted
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
            self._accepted[part.accepted] += 1
            if (binding := generation.binding) is not None:
                self._drafted_by[binding.drafter.node_id] += part.drafted
                self._accepted_by[binding.drafter.node_id] += part.accepted
        if generation.first is None:
            self._prompt_tokens += len(generation.submit.tokens)
            self._first_token.observe(part.now - generation.arrived)
        else:
            self._between.observe(part.now - generation.last)

    def step(self, tokens: int, seconds: float) -> None:
        self._steps += 1
        self._step_tokens.observe(tokens)
        self._step_seconds.observe(seconds)

    def chosen(self, choice: Choice, planned: int, emitted: int, seconds: float) -> None:
        """A step with windows: what was planned of it and why, and what came of it."""
        self._planned += planned
        self._choices[choice.reason] += 1
        drafting = float(planned > 0)
        self._lengths_changed += self._length is not None and drafting != self._length
        self._length = drafting
        if choice.emitted is not None:
            _smooth(self._expected, choice.emitted, emitted)
        if choice.seconds is not None:
            _smooth(self._took, choice.seconds, seconds)

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
                "drafting_changes": one(self._lengths_changed),
                "drafts": one(self._accepted.total()),
                "draft_tokens": one(self._drafted),
                "accepted_tokens": one(sum(a * rounds for a, rounds in self._accepted.items())),
                "accepted_at": self._accepted_at(),
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
                "running": level(len(scheduler.running)),
                "waiting": level(len(scheduler.waiting)),
                "pages": level(pool.pages),
                "pages_free": level(pool.free),
                "pages_used": level(1 - pool.free / pool.pages),
                "drafters": level(len(roster)),
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
                "step_seconds": self._step_seconds.histogram(),
                "step_tokens": self._step_tokens.histogram(),
                "request_prompt_tokens": self._prompts.histogram(),
                "request_output_tokens": self._outputs.histogram(),
            },
        )

    def _accepted_at(self) -> dict[str, int]:
        """For each position of a window, in how many rounds the draft there was accepted."""
        length = max(self._draft_length, *self._accepted, 0)
        reached = 0
        counts = {}
        for position in range(length, 0, -1):
            reached += self._accepted[position]
            counts[str(position - 1)] = reached
        return dict(reversed(counts.items()))


def _smooth(values: dict[str, float], predicted: float, actual: float) -> None:
    """Over the last fifty steps or so."""
    for name, value in (("predicted", predicted), ("actual", actual)):
        values[name] += 0.02 * (value - values[name]) if values[name] else value
