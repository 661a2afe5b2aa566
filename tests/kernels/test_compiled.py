"""Kernels compile for GPUs that are not here, without spills, within the memory of a program."""

import pytest

from tests.kernels.compiled import SHARED, Variant, compiled, variants

ALL = [
    pytest.param(each, architecture, id=f"{each.name}, sm_{architecture}")
    for each in variants()
    for architecture in SHARED
    if architecture >= each.least
]


@pytest.mark.full
@pytest.mark.parametrize(("variant", "architecture"), ALL)
def test_nothing_spills_and_shared_memory_suffices(variant: Variant, architecture: int) -> None:
    found = compiled(variant, architecture)
    assert found.spilled == 0
    assert found.shared <= SHARED[architecture]
    assert found.registers <= 255
