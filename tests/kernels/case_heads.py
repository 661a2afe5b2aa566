"""Heads as a GPU computes them (attention, draws and the DSpark bias by kernels) guess what they guess on the CPU."""

from pathlib import Path

import numpy as np
import pytest
import torch

from drafter.heads.blocks import BlockProposer
from engine.device import Device
from tests import heads
from tests.drafter.on_device import (
    KINDS,
    SLICES,
    WISHES,
    drafted,
    made,
    mirrors_of,
    tell,
)
from tests.models import write_byte_llama

THERE = Device("cpu", kernels=True)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    write_byte_llama(folder)
    return folder


@pytest.mark.parametrize("wishes", WISHES)
@pytest.mark.parametrize("name", KINDS)
def test_the_same_guesses(tmp_path: Path, target: Path, name: str, wishes: str) -> None:
    kind = KINDS[name]
    folder = kind.write(tmp_path)
    said = []
    how = "probabilistic" if wishes in SLICES else "greedy"
    for device in (Device(), THERE):
        proposer = made(kind, folder, target, device, draft_sample_method=how)
        if isinstance(proposer, BlockProposer) and kind.method == "dspark":
            assert (proposer._head.fused is not None) == device.kernels
        mirrors = mirrors_of(WISHES[wishes], SLICES.get(wishes, ()))
        tell(proposer, mirrors, kind.states * heads.HIDDEN)
        said.append(drafted(proposer, mirrors, 5))
    drawn = 0
    for one, other in zip(*said, strict=True):
        assert list(one.tokens) == list(other.tokens)
        assert one.pending == other.pending
        assert list(one.confidences) == pytest.approx(list(other.confidences), abs=2e-4)
        assert len(one.laws) == len(other.laws)
        for law, same in zip(one.laws, other.laws, strict=True):
            assert law.ids.tolist() == same.ids.tolist()
            np.testing.assert_allclose(law.values, same.values, atol=2e-4)
            drawn += len(law.ids) > 1
    assert sum(len(each.tokens) for each in said[0]) >= 15
    assert (drawn > 0) == (wishes in SLICES)


def test_rows_of_bfloat16_and_a_head_of_it(tmp_path: Path, target: Path) -> None:
    """Products that are rounded otherwise may choose otherwise; that something comes of it is all that is asked."""
    kind = KINDS["dspark, vanilla"]
    proposer = made(kind, kind.write(tmp_path), target, THERE, dtype="bfloat16")
    mirrors = mirrors_of(WISHES["greedy"])
    tell(proposer, mirrors, 2 * heads.HIDDEN, "bfloat16")
    assert all(len(each.tokens) == 5 for each in drafted(proposer, mirrors, 5)[:3])
    assert proposer._memory.kv[0].dtype is torch.bfloat16
