"""Which drafts of all requests enter a step: the likeliest to be kept, as many as pay. Pure.

Shapes: P positions of a window, R requests.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from verifier.planner import Candidate

Survivals = npt.NDArray[np.float64]
Held = npt.NDArray[np.bool_]
SCALE = 65535.0


class Admitted(NamedTuple):
    """Draft lengths, the tokens they are expected to bring with one of the target's own each, and the step's time."""

    lengths: list[int]
    emitted: float
    seconds: float


def packed(candidates: Sequence[Candidate], positions: int) -> tuple[Survivals, Held]:
    """Confidences [R, P], 0 behind a tail and -1 where nothing is said of a guess; and which places hold guesses."""
    flat: list[float] = []
    none, blank = [-1.0] * positions, [0.0] * positions
    counts: list[int] = []
    for each in candidates:
        count = min(each.available, each.limit, positions)
        counts.append(count)
        said = each.confidences
        if count <= 0:
            flat += blank
        elif len(said) >= count:
            flat += said[:count]
            flat += blank[count:]
        else:
            flat += none[:count]
            flat += blank[count:]
    confidences = np.array(flat).reshape(len(candidates), positions)
    held = np.arange(positions) < np.array(counts)[:, None]
    return confidences, held


def admitted(
    survivals_RP: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64], least: float
) -> Admitted:
    """The number of drafts that brings most tokens a second, and whose they are.

    `seconds[k]` is what the step takes with k drafts; more than it tells of cannot enter. Among equals the earlier
    position goes first, then the earlier request; survivals never rise along a request, so drafts enter without gaps.
    """
    requests = len(survivals_RP)
    flat = survivals_RP.T.ravel()
    keys = (SCALE - flat * SCALE).astype(
        np.uint16
    )  # small numbers are sorted by radix: ten times faster
    order = np.argsort(keys, kind="stable")
    chances = flat[order]
    count = min(int((flat > least).sum()), len(seconds) - 1)
    emitted = np.empty(count + 1)
    emitted[0] = requests
    np.cumsum(chances[:count], out=emitted[1:])
    emitted[1:] += requests
    best = int(np.argmax(emitted / seconds[: count + 1]))
    lengths = np.bincount(order[:best] % requests, minlength=requests)
    return Admitted(lengths.tolist(), float(emitted[best]), float(seconds[best]))
