"""Acceptance by a curve instead of by the target: realistic lengths and costs, but the text means nothing."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from engine.masses import draw_rest, usable
from engine.philox import Role
from verifier.rules.decisions import conditional
from verifier.rules.judging import CERTAIN, NOTHING
from verifier.rules.windows import NOT_NUMBERS, begins, coins, params_of
from verifier.step import Verdict, Work


def synthetic(rates: Sequence[float], windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """Keep at least i drafts with probability `rates[i - 1]`, none beyond the curve (methods 1.10).

    A draft that may not stand where it does (a grammar, a ban) is rejected even so. The token that ends a round is the
    target's, other than the guess that it replaces. Where the curve is longer than the window, a further guess may
    take the place of that token.
    """
    chances = conditional(rates)
    accepting, final = coins(windows, Role.ACCEPT), coins(windows, Role.FINAL)
    verdicts = []
    for index, (work, begin) in enumerate(zip(windows, begins(windows), strict=True)):
        rows_NV = logits_NV[begin : begin + work.draws]
        tested = work.tested[: max(work.drafts, len(chances))]
        kept = 0
        for guess, chance, coin in zip(tested, chances, accepting[index], strict=False):
            if not (coin < chance and rows_NV[kept, guess] > float("-inf")):
                break
            kept += 1
        tokens = tested[:kept]
        if kept == work.draws:
            verdicts.append(Verdict(tokens, work.drafts))
            continue
        if not usable(rows_NV[kept : kept + 1])[0]:
            verdicts.append(Verdict(tokens, kept, fault=NOT_NUMBERS))
            continue
        ids, taken = NOTHING, CERTAIN[:0]
        row_V = rows_NV[kept]
        if kept < len(tested):
            ids, taken = np.array([tested[kept]], dtype=np.int32), CERTAIN
            if work.sampling.temperature == 0.0:
                row_V = row_V.clone()
                row_V[tested[kept]] = float("-inf")
        own = draw_rest(row_V, params_of(work), ids, taken, final[index][kept])
        verdicts.append(Verdict((*tokens, own), kept))
    return verdicts
