"""Laws of drawn guesses on the wire: what is sent is what was drawn from, and what cannot be a law is refused."""

import numpy as np
import pytest

from protocol.errors import PeerError
from protocol.laws import Law, pack, unpack
from protocol.tensor import Tensor

NAN = float("nan")


def law(*pairs: tuple[int, float]) -> Law:
    return Law(
        np.array([token for token, _ in pairs], np.int32),
        np.array([share for _, share in pairs], np.float32),
    )


def sent(*rows: list[tuple[int, float]]) -> tuple[Tensor, Tensor]:
    return pack([law(*row) for row in rows])


def pairs(found: Law) -> list[tuple[int, float]]:
    return list(zip(found.ids.tolist(), found.values.tolist(), strict=True))


def test_laws_arrive_to_the_bit() -> None:
    third = float(np.float32(1 / 3))
    rows = [[(5, third), (2, third), (9, third)], [(7, 0.75), (1, 0.25)]]
    assert [pairs(each) for each in unpack(*sent(*rows), [2, 7], 10)] == rows


def test_a_share_is_a_value_over_their_sum() -> None:
    tenths = law((1, 0.7), (2, 0.2), (3, 0.1))
    values = [float(np.float32(each)) for each in (0.7, 0.2, 0.1)]
    total = values[0] + values[1] + values[2]
    assert tenths.shares.tolist() == [each / total for each in values]
    assert tenths.total == total


def test_no_slices_are_no_laws() -> None:
    assert unpack(None, None, [1, 2], 10) == []


@pytest.mark.parametrize(
    ("rows", "tokens", "text"),
    [
        ([[(1, 0.5), (2, 0.5)]], [3], "token 3 cannot have been drawn"),
        ([[(1, 1.0), (3, 0.0)]], [3], "token 3 cannot have been drawn"),
        ([[(1, 0.5), (1, 0.5)]], [1], "a token twice"),
        ([[(1, 0.5), (2, 0.4)]], [1], "come to 0.9"),
        ([[(1, NAN), (2, 0.5)]], [2], "no probability"),
        ([[(1, -0.5), (2, 1.0)]], [2], "no probability"),
        ([[(1, 1.5), (2, 0.5)]], [2], "no probability"),
        ([[(-1, 0.5), (2, 0.5)]], [2], "not below 10"),
        ([[(10, 0.5), (2, 0.5)]], [2], "not below 10"),
        ([[(1, 1.0)]], [1, 1], "for 2 tokens"),
    ],
)
def test_what_cannot_be_the_law_of_a_draw_is_the_peers_fault(
    rows: list[list[tuple[int, float]]], tokens: list[int], text: str
) -> None:
    with pytest.raises(PeerError, match=text):
        unpack(*sent(*rows), tokens, 10)


def test_tensors_of_another_kind_are_the_peers_fault() -> None:
    ids, values = sent([(1, 1.0)])
    with pytest.raises(PeerError, match="needs ids and probabilities"):
        unpack(ids, None, [1], 10)
    with pytest.raises(PeerError, match="slices of float32"):
        unpack(values, values, [1], 10)
