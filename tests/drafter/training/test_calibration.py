"""Temperatures of confidences: fitted on draws whose right chances are known."""

import pytest
import torch

from drafter.training.calibration import calibration_error, survivals, temperatures


def test_the_error_is_the_gap_in_each_bin() -> None:
    """Two in the bin of .1 (none happened), two in that of .9 (one happened): (.2 + .8) / 4."""
    said = torch.tensor([0.1, 0.1, 0.9, 0.9])
    assert calibration_error(said, torch.tensor([0, 0, 1, 0]), bins=5) == pytest.approx(0.25)


def test_confidences_that_are_too_sure_are_cooled_to_what_happens() -> None:
    make = torch.Generator().manual_seed(5)
    right = torch.randn(20_000, 2, generator=make)
    kept = (torch.rand(right.shape, generator=make) < right.sigmoid()).long().cumprod(-1).bool()
    said = right * torch.tensor([3.0, 0.5])
    fitted = temperatures(said, kept)
    assert fitted == [pytest.approx(3.0, rel=0.15), pytest.approx(0.5, rel=0.15)]
    before = calibration_error(survivals(said, torch.ones(2)).flatten(), kept.flatten())
    after = calibration_error(survivals(said, torch.tensor(fitted)).flatten(), kept.flatten())
    assert after < before / 3
