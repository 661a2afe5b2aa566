"""What a planner would do that knew which guesses are right: the measure for others, in the bench alone."""

from collections.abc import Sequence

import numpy as np

from verifier.costs import Seconds
from verifier.planner import fit


def oracle(right: Sequence[int], seconds: Seconds) -> list[int]:
    """Draft lengths that make most tokens a second of a step, every number of drafts tried.

    `right[r]` guesses of request r are right before the first wrong one, which is never worth its place; `seconds[k]`
    is what the step takes with k drafts.
    """
    most = min(sum(right), len(seconds) - 1)
    emitted = len(right) + np.arange(most + 1)
    return fit(right, int(np.argmax(emitted / seconds[: most + 1])))
