"""Random numbers that are a function of their name: Philox4x32-10 with the name as its counter.

Shapes: N names, one dimension after broadcasting.
"""

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

ROUNDS: Final = 10
MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_STEPS: Final = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
LOW: Final = np.uint64(0xFFFFFFFF)
HALF: Final = np.uint64(32)


class Role(IntEnum):
    """What a number is drawn for; numbers of different roles are independent."""

    TARGET = 0  # a token of the target's own distribution
    ACCEPT = 1  # whether a draft token is accepted
    FINAL = 2  # the token that ends a round: recovered or bonus
    DRAFT = 3  # a token of a draft model's distribution


def philox4x32(counter_4N: Words, key_2N: Words) -> Words:
    """Ten rounds over four counter words and two key words, each below 2**32."""
    c0, c1, c2, c3 = counter_4N
    k0, k1 = key_2N
    for _ in range(ROUNDS):
        left, right = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (right >> HALF) ^ c1 ^ k0,
            right & LOW,
            (left >> HALF) ^ c3 ^ k1,
            left & LOW,
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & LOW, (k1 + KEY_STEPS[1]) & LOW
    return np.stack((c0, c1, c2, c3))


def uniforms(
    seeds: npt.ArrayLike,
    choices: npt.ArrayLike,
    positions: npt.ArrayLike,
    roles: npt.ArrayLike,
    bases: npt.ArrayLike = 0,
) -> npt.NDArray[np.float64]:
    """Numbers in (0, 1), both ends excluded, in steps of 2**-52; the arguments broadcast.

    Seeds are below 2**64 and the others below 2**32. `bases` tells rounds apart, for rules whose
    draws must not be reused by a later round that reaches the same position.
    """
    names = (seeds, positions, choices, roles, bases)
    seed_N, *counter = np.broadcast_arrays(*(np.asarray(name, dtype=np.uint64) for name in names))
    words_4N = philox4x32(np.stack(counter), np.stack((seed_N & LOW, seed_N >> HALF)))
    return unit(words_4N)


def unit(words_4N: Words) -> npt.NDArray[np.float64]:
    """The first 52 bits as a number strictly between 0 and 1."""
    bits_N = (words_4N[0] << np.uint64(20)) | (words_4N[1] >> np.uint64(12))
    # The half step keeps 0 out; with 53 bits the largest number would round to 1.
    number_N: npt.NDArray[np.float64] = (bits_N.astype(np.float64) + 0.5) * 2.0**-52
    return number_N
