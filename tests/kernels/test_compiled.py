"""Kernels compile for GPUs that are not here, without spills, within the memory of a program."""

import pytest

from tests.kernels.compiled import SHARED, compiled, variants


@pytest.mark.full
@pytest.mark.parametrize("architecture", SHARED)
@pytest.mark.parametrize("variant", variants(), ids=lambda each: each.name)
def test_nothing_spills_and_shared_memory_suffices(variant: object, architecture: int) -> None:
    found = compiled(variant, architecture)  # type: ignore[arg-type]  # parametrised
    assert found.spilled == 0
    assert found.shared <= SHARED[architecture]
    assert found.registers <= 255
