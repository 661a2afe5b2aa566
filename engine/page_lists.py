"""The pages of all rows end to end, as libraries of attention ask for them: whole numbers only.

Shapes: R rows, J pages of all of them; B = R + 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from engine.batch import Row

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PageLists:
    """Row i has the tokens [tokens[i], tokens[i + 1]) and `pages` from begins[i] to begins[i + 1].

    `last` says how many positions of its last page have keys: from 1 to the page's size.
    """

    tokens_B: Ints
    begins_B: Ints
    pages_J: Ints
    last_R: Ints


def page_lists(rows: Sequence[Row], page_size: int) -> PageLists:
    """Of each row the pages that its keys reach, its new ones included, and no others."""
    used = [-(-row.end // page_size) for row in rows]
    pages = [page for row, count in zip(rows, used, strict=True) for page in row.pages[:count]]
    return PageLists(
        _ints([0, *accumulate(len(row.tokens) for row in rows)]),
        _ints([0, *accumulate(used)]),
        _ints(pages),
        _ints([(row.end - 1) % page_size + 1 for row in rows]),
    )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, np.int32)
