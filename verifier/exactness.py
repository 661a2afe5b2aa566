"""What goes together without changing the law of the output: rule x planner x draws x confidence. Pure, without torch.

With guesses that are functions of text and seed, or with a rule that does not ask what they were drawn from, whatever
decides about windows changes nothing. With laws, whether draft k enters a window may be a function of the tokens before
it, of finished positions and of past costs, and of nothing else (methods 1.13). `tests/exact/test_laws.py` computes the
laws of all of these combinations; `docs/verification.md` shows the table that this module makes.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from verifier.acceptance import RULES, Slices, lossy, rates, wanted
from verifier.config import VerifierConfig
from verifier.planner import Looks, Planner
from verifier.planners import PLANNERS


class Draws(StrEnum):
    """How a drafting method arrives at a guess."""

    CERTAIN = "certain"  # a function of text and seed
    ONE_BY_ONE = "one by one"  # drawn, each from a law that depends on the guesses before it
    AT_ONCE = "at once"  # drawn, each from a law that depends on committed text alone
    ANY_ORDER = "any order"  # some were drawn after later ones: there is no law given those before


class Confidence(StrEnum):
    """What a method says of how sure it is of a guess."""

    NONE = "none"  # nothing, or what was learned from finished positions
    TOKEN = "token"  # noqa: S105  # how likely the drawn token was
    LARGEST = "largest"  # how likely the likeliest token was: `max_prob`
    HEAD = "head"  # what a trained head makes of the guesses before it


class Kind(StrEnum):
    """What comes of a combination."""

    EXACT = "exact"
    LOSSY = "lossy by request"
    REFUSED = "refused"


class Finding(NamedTuple):
    """A kind, and why."""

    kind: Kind
    reason: str


POINTLESS: Final = "keeps no more than `match` where guesses are certain"
NO_LAW: Final = "guesses that were not drawn in order have no law given those before them"
OWN: Final = "the planner would look at a token to decide about that token"
LARGEST_OF_SAMPLED: Final = "the largest probability depends on sampled tokens here"
LATER: Final = "the planner would look at later tokens to decide about earlier ones"


def finding(rule: str, looks: Looks, draws: Draws, confidence: Confidence) -> Finding:
    """What comes of a combination, with the settings of the rule at their identity."""
    exact, refused = Kind.EXACT, Kind.REFUSED
    certain, largest = draws is Draws.CERTAIN, confidence is Confidence.LARGEST
    first = (
        (not RULES[rule].laws, exact, "what guesses were drawn from plays no part"),
        (certain and RULES[rule].fresh, refused, POINTLESS),
        (certain, exact, "guesses are certain"),
        (draws is Draws.ANY_ORDER, refused, NO_LAW),
        (looks in {Looks.NOTHING, Looks.BEHIND}, exact, "no token decides about itself"),
        (confidence is Confidence.NONE, exact, "no token decides about itself"),
        (largest and draws is Draws.AT_ONCE, exact, "no confidence depends on a sampled token"),
        (confidence is Confidence.HEAD and looks is Looks.AT, exact, "only earlier tokens decide"),
        (confidence is Confidence.TOKEN, refused, OWN),
        (largest, refused, LARGEST_OF_SAMPLED),
        (True, refused, LATER),
    )
    return next(Finding(kind, reason) for true, kind, reason in first if true)


def judged(config: VerifierConfig, draws: Draws, confidence: Confidence) -> Finding:
    """What comes of a verifier as it is configured, with drafters of this kind."""
    if fault := next(faults(config), ""):
        return Finding(Kind.REFUSED, fault)
    if label := lossy(config):
        return Finding(Kind.LOSSY, label)
    return finding(config.rule, looks(config), draws, confidence)


def planner(config: VerifierConfig) -> Planner:
    """The configured planner, careful where the rule uses what guesses were drawn from."""
    careful = config.planner.careful or RULES[config.rule].laws
    return PLANNERS[config.planner.name](config.planner.model_copy(update={"careful": careful}))


def looks(config: VerifierConfig) -> Looks:
    """What the configured planner looks at."""
    return planner(config).looks


def asked(config: VerifierConfig) -> Slices:
    """What drafters are to tell of their guesses: nothing, if those that may come would then bias the output.

    Whoever is not asked guesses with certainty, which is exact under every planner.
    """
    draws, confidence = Draws(config.drafts.draws), Confidence(config.drafts.confidence)
    found = finding(config.rule, looks(config), draws, confidence)
    return wanted(config) if found.kind is Kind.EXACT else Slices()


def faults(config: VerifierConfig) -> Iterator[str]:
    """What is wrong with a verifier's own settings, as sentences for whoever wrote them."""
    if config.rule not in RULES:
        yield f"there is no rule {config.rule!r}, only {', '.join(RULES)}"
        return
    if config.planner.name not in PLANNERS:
        yield f"there is no planner {config.planner.name!r}, only {', '.join(PLANNERS)}"
    curve, bars = config.synthetic, config.threshold
    if config.rule != "threshold" and (bars.single, bars.accumulated) != (1.0, 1.0):
        yield f"thresholds mean nothing to rule {config.rule}: they belong to rule threshold"
    if config.rule == "synthetic":
        yield from _curve_faults(config)
    elif curve.rates or curve.length is not None:
        yield f"a curve means nothing to rule {config.rule}: it belongs to rule synthetic"


def _curve_faults(config: VerifierConfig) -> Iterator[str]:
    curve, longest = config.synthetic, config.planner.draft_length
    if bool(curve.rates) == (curve.length is not None):
        yield "rule synthetic needs either synthetic.rates or synthetic.length"
        return
    if curve.length is not None and curve.length > longest + 1:
        yield f"synthetic.length {curve.length} is more than {longest} drafts and one token can be"
    if len(curve.rates) > longest:
        yield f"{len(curve.rates)} synthetic.rates for {longest} drafts"
    steps = rates(config)
    if any(later > earlier for earlier, later in pairwise(steps)):
        yield "synthetic.rates rise: at least 2 drafts cannot be kept more often than at least 1"
