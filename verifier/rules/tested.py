"""Rules that test each guess against the target's distribution and draw what ends the round from the remainder."""

from collections.abc import Sequence

from torch import Tensor

from verifier.rules import decisions
from verifier.rules.judging import judge
from verifier.step import Verdict, Work


def ratio(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """Each guess by what it was drawn from (methods 1.5); a certain one as in methods 1.4."""
    return judge(decisions.ratio, windows, logits_NV, laws=True)


def block(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """All guesses of a window together (methods 1.9), with coins of this round alone (methods 1.13 iv)."""
    return judge(decisions.block, windows, logits_NV, laws=True, fresh=True)
