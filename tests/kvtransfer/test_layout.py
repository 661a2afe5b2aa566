"""Two layouts match, can be made to match, or are refused with the first difference and both values."""

import pytest
from msgspec import structs

from kvtransfer.layout import Difference, Layer, Layout, Match, compatible, decode
from protocol.errors import PeerError
from tests.kvtransfer.layouts import small

OWN = small()


def with_layer(number: int, **changes: object) -> Layout:
    layers = list(OWN.layers)
    layers[number] = structs.replace(layers[number], **changes)
    return small(layers=tuple(layers))


def test_a_layout_serves_its_like() -> None:
    assert compatible(OWN, small()) == Match()


@pytest.mark.parametrize(
    ("other", "reshaped"),
    [
        (small(page_size=32), ("page size",)),
        (small(order="heads"), ("order",)),
        (with_layer(0, first=2), ("heads",)),
        (structs.replace(with_layer(1, end=3), page_size=1), ("page size", "heads")),
    ],
)
def test_pages_of_another_shape_are_made_to_fit(other: Layout, reshaped: tuple[str, ...]) -> None:
    assert compatible(OWN, other) == Match(reshaped)
    assert compatible(other, OWN) == Match(reshaped)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (small(model="n"), Difference("model", "m", "n")),
        (small(adapter="law"), Difference("adapter", "", "law")),
        (small(drafter="e"), Difference("drafter", "d", "e")),
        (small(rope="theta 1e6"), Difference("rope", "theta 1e5", "theta 1e6")),
        (small(layers=OWN.layers[:2]), Difference("layers", 3, 2)),
        (with_layer(2, role="draft"), Difference("role of layer 2", "features", "draft")),
        (with_layer(1, dtype="float32"), Difference("dtype of layer 1", "bfloat16", "float32")),
        (with_layer(2, head_size=72), Difference("head size of layer 2", 24, 72)),
        (with_layer(0, heads=8), Difference("heads of layer 0", 4, 8)),
        (with_layer(0, parts=1), Difference("parts of layer 0", 2, 1)),
    ],
)
def test_what_cannot_fit_is_named_with_both_values(other: Layout, difference: Difference) -> None:
    assert compatible(OWN, other) == difference
    assert compatible(other, OWN) == Difference(difference.what, difference.other, difference.one)


def test_the_first_of_several_differences_is_told() -> None:
    other = structs.replace(with_layer(1, dtype="float32", head_size=4), model="n")
    assert str(compatible(OWN, other)) == "model: m here, n there"


def test_ranks_without_a_head_in_common_have_nothing_to_say() -> None:
    one, other = with_layer(0, end=2), with_layer(0, first=2)
    assert compatible(one, other) == Difference("heads held of layer 0", "[0, 2)", "[2, 4)")


def test_a_verifier_without_drafters_that_read_states_takes_the_target_alone() -> None:
    plain = structs.replace(small(layers=OWN.layers[:2]), drafter="")
    assert compatible(OWN, plain) != Match()
    assert compatible(OWN.only("target"), plain) == Match()
    assert OWN.only("target", "features") == OWN


def test_a_token_costs_what_its_layers_hold() -> None:
    assert OWN.slot_bytes == 2 * (2 * 4 * 8 * 2) + 24 * 2
    assert OWN.only("features").slot_bytes == 48
    assert with_layer(0, first=3).slot_bytes == OWN.slot_bytes - 3 * 2 * 8 * 2


def test_a_layout_comes_back_from_the_wire_as_it_was() -> None:
    assert decode(OWN.encode()) == OWN


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\xc0", "no layout"),
        (small(page_size=0).encode(), "no positions"),
        (with_layer(1, dtype="float13").encode(), "layer 1 has the dtype 'float13'"),
        (with_layer(0, first=4).encode(), "layer 0 holds nothing"),
        (with_layer(0, end=5).encode(), "layer 0 holds nothing"),
        (small(layers=(Layer("target", "float32", 1, 0, 0, 1),)).encode(), "layer 0 holds nothing"),
    ],
)
def test_a_layout_that_cannot_be_is_the_peers_fault(data: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        decode(data)
