"""The noise of drawn guesses: a number that is a function of its name, independent of every coin of the verifier."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from drafter.mirror import Mirror
from engine.philox import Role, uniforms

ROLE_BITS: Final = 2
EPOCHS: Final = (1 << 32 - ROLE_BITS) - 1
"""Of an epoch, what fits above the role in its word."""


def noise(mirrors: Sequence[Mirror], positions: Sequence[int]) -> list[float]:
    """For each mirror the uniform by which its token at an absolute position is drawn.

    Keyed by (seed, choice, position); under rules that need it by the committed length, too, that this drafter knows:
    then a position that is drafted again after a commit is drafted with other noise (methods 1.13 iv), and so it is by
    another drafter at the same base: the epoch stands above the role.
    """
    numbers: list[float] = uniforms(
        np.array([mirror.sampling.seed for mirror in mirrors], np.uint64),
        [mirror.choice for mirror in mirrors],
        positions,
        [
            Role.DRAFT | (mirror.epoch & EPOCHS) << ROLE_BITS if mirror.fresh else Role.DRAFT
            for mirror in mirrors
        ],
        [len(mirror.prompt) + mirror.base if mirror.fresh else 0 for mirror in mirrors],
    ).tolist()
    return numbers
