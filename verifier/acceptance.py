"""Acceptance rules: how drafts are judged against the target's logits. One table of pure functions.

Randomness is explicit: every number is keyed by (seed, choice, absolute position, role), and for `block` by the round's
base length too, so a draw never depends on batch mates, draft lengths or restarts. `docs/verification.md` tells which
rule to choose; `verifier/exactness.py` with what it goes together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from verifier.config import VerifierConfig
from verifier.rules.decisions import Decide, block, ratio, staircase, threshold
from verifier.step import Verdict, Work

Rule = Callable[[Sequence[Work], Any], list[Verdict]]
"""(windows, logits_NV) -> a verdict for each window; logits hold `draws` rows for each, in order.

They are a tensor; this module is read without torch, by cores and by whoever checks a configuration.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule. `laws`: it uses what guesses were drawn from. `fresh`: draws carry the round's base length.

    `decide` is the rule on a handful of numbers, for those that test guesses one place after the other. `lossy` says
    for a configuration how the output's law differs from the target's, if it does.
    """

    text: str
    make: Callable[[VerifierConfig], Rule]
    decide: Callable[[VerifierConfig], Decide] | None = None
    laws: bool = False
    fresh: bool = False
    lossy: Callable[[VerifierConfig], str] = lambda _: ""


class Slices(NamedTuple):
    """What a rule wants to know of draws: see `DraftSync`."""

    size: int = 0
    fresh: bool = False


def _load(module: str, name: str) -> Any:  # noqa: ANN401
    return getattr(import_module(f"verifier.rules.{module}"), name)


def _drawn(text: str, name: str) -> Entry:
    """A rule that compares guesses with the target's own tokens."""
    return Entry(text, lambda _: _load("plain", name))


def _tested(
    text: str,
    decide: Callable[[VerifierConfig], Decide],
    *,
    laws: bool = False,
    fresh: bool = False,
    lossy: Callable[[VerifierConfig], str] = lambda _: "",
) -> Entry:
    """A rule that tests guesses by numbers."""

    def make(config: VerifierConfig) -> Rule:
        return partial(_load("judging", "judge"), decide(config), laws=laws, fresh=fresh)

    return Entry(text, make, decide, laws, fresh, lossy)


def _synthetic(config: VerifierConfig) -> Rule:
    return partial(_load("synthetic", "synthetic"), rates(config))


def _threshold(config: VerifierConfig) -> Decide:
    return threshold(config.threshold.single, config.threshold.accumulated)


def rates(config: VerifierConfig) -> list[float]:
    """The curve of rule `synthetic`."""
    curve = config.synthetic
    if curve.length is not None:
        return staircase(curve.length, config.planner.draft_length)
    return list(curve.rates)


def _curve(config: VerifierConfig) -> str:
    mean = 1 + sum(rates(config))
    return f"drafts are kept by a curve of mean length {mean:.2f}, right or wrong"


def _thresholds(config: VerifierConfig) -> str:
    single, accumulated = config.threshold.single, config.threshold.accumulated
    if single == accumulated == 1.0:
        return ""
    return f"likely drafts are kept more often than they would be drawn (single {single}, accumulated {accumulated})"


RULES: Final[Mapping[str, Entry]] = {
    "greedy": _drawn("the likeliest token; temperature must be 0", "greedy"),
    "match": _drawn("the token that plain decoding would draw", "match"),
    "ratio": _tested("each guess by target over draft probability", lambda _: ratio, laws=True),
    "block": _tested("all guesses of a window together", lambda _: block, laws=True, fresh=True),
    "threshold": _tested("likely enough guesses", _threshold, lossy=_thresholds),
    "synthetic": Entry("a given curve, for benchmarks", _synthetic, lossy=_curve),
}


def make(config: VerifierConfig) -> Rule:
    """The rule that a configuration names, ready to judge."""
    return RULES[config.rule].make(config)


def wanted(config: VerifierConfig) -> Slices:
    """What drafters are to tell of their guesses."""
    rule = RULES[config.rule]
    return Slices(config.slice, rule.fresh) if rule.laws else Slices()


def lossy(config: VerifierConfig) -> str:
    """The label of what a configured rule does to the output's law; empty: nothing."""
    how = RULES[config.rule].lossy(config)
    return f"{config.rule}: {how}" if how else ""
