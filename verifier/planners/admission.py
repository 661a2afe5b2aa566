"""Which drafts of all requests enter a step: the likeliest to be kept, as many as pay. Pure.

Shapes: P positions of a window, R requests.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from verifier.planner import Candidate

Numbers = npt.NDArray[np.floating[Any]]
Survivals = npt.NDArray[np.float64]
Held = npt.NDArray[np.bool_]
SCALE = 65535.0


class Admitted(NamedTuple):
    """Draft lengths, the tokens they are expected to bring with one of the target's own each, and the step's time."""

    lengths: list[int]
    emitted: float
    seconds: float


def packed(candidates: Sequence[Candidate], positions: int) -> tuple[Survivals, Held]:
    """Confidences [R, P], -1 where nothing is said; and which places hold guesses that may enter."""
    available = np.array([each.available for each in candidates])
    limits = np.array([each.limit for each in candidates])
    said = [each.confidences for each in candidates]
    if set(map(len, said)) != {positions}:
        pad = [-1.0] * positions
        said = [[*each[:positions], *pad[len(each) :]] for each in said]
    flat: list[float] = []
    for each in said:
        flat += each
    shape = (len(candidates), positions)
    packer = Struct(f"{len(flat)}d")  # a third of the time that numpy takes for it
    confidences_RP = np.frombuffer(packer.pack(*flat)).reshape(shape)
    return confidences_RP, np.arange(positions) < np.minimum(available, limits)[:, None]


def admitted(survivals_RP: Numbers, seconds: Numbers, least: float) -> Admitted:
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
    count = min(int(np.count_nonzero(flat > least)), len(seconds) - 1)
    emitted = np.empty(count + 1)
    emitted[0] = requests
    np.cumsum(chances[:count], out=emitted[1:])
    emitted[1:] += requests
    best = int(np.argmax(emitted / seconds[: count + 1]))
    enters = np.zeros(flat.size, np.uint8)
    enters[order[:best]] = 1
    lengths = enters.reshape(-1, requests).sum(axis=0, dtype=np.int64)
    return Admitted(lengths.tolist(), float(emitted[best]), float(seconds[best]))
