"""Philox against Random123's known answers, and uniforms against what callers rely on."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.philox import Role, philox4x32, uniforms, unit

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(counter: list[int], key: list[int], answer: list[int]) -> None:
    def column(words: list[int]) -> NDArray[np.uint64]:
        return np.array(words, dtype=np.uint64)[:, None]

    assert philox4x32(column(counter), column(key))[:, 0].tolist() == answer


def test_a_number_is_a_function_of_its_name_alone() -> None:
    together = uniforms([3, 2**64 - 1, 3], 0, [5, 5, 6], Role.ACCEPT)
    alone = [uniforms(seed, 0, position, Role.ACCEPT) for seed, position in [(3, 5), (3, 6)]]
    assert [together[0], together[2]] == alone
    assert together[1] not in alone


def test_every_part_of_the_name_counts() -> None:
    names = [(0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (2**32, 0, 0, 0, 0)]
    names += [tuple(int(i == place) for i in range(5)) for place in range(1, 5)]  # type: ignore[misc]
    numbers = {float(uniforms(*name)) for name in names}
    assert len(numbers) == len(names)


def test_the_numbers_are_uniform_and_exclude_both_ends() -> None:
    numbers = uniforms(11, 0, np.arange(200_000), Role.TARGET)
    assert numbers.min() > 0.0
    assert numbers.max() < 1.0
    counts = np.histogram(numbers, bins=100, range=(0, 1))[0]
    assert ((counts - 2000.0) ** 2 / 2000.0).sum() < 149.0  # chi-square, 99 degrees, p = 0.001


def test_the_extreme_words_stay_inside() -> None:
    lowest, highest = unit(np.array([[0, ONES]] * 4, dtype=np.uint64))
    assert 0.0 < lowest < 2.0**-52
    assert 1.0 - 2.0**-52 < highest < 1.0


def test_roles_are_uncorrelated() -> None:
    accept = uniforms(5, 0, np.arange(50_000), Role.ACCEPT)
    final = uniforms(5, 0, np.arange(50_000), Role.FINAL)
    assert abs(np.corrcoef(accept, final)[0, 1]) < 0.015
