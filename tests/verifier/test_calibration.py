"""Calibration: confidences that mean nothing come to mean what they are worth, by label and position."""

import numpy as np
import pytest

from verifier.calibration import BINS, GUESSED, UNKNOWN, Calibration, class_of


def test_before_anything_is_known_a_confidence_is_believed() -> None:
    chances = Calibration().of("suffix").chances
    for said in (0.05, 0.42, 0.99):
        assert chances[0, class_of(said)] == pytest.approx(said, abs=1 / BINS)
    assert chances[3, UNKNOWN] == GUESSED


def test_an_overconfident_method_is_believed_less_and_less_by_position_too() -> None:
    """It says 0.9 always; in truth 0.8 of first tokens are kept and 0.3 of second ones."""
    label = Calibration().of("ngram")
    rng = np.random.default_rng(1)
    for _ in range(3000):
        first, second = rng.random() < 0.8, rng.random() < 0.3
        label.learn((0.9, 0.9), 2, int(first) + int(first and second))
    chances = label.chances
    assert chances[0, class_of(0.9)] == pytest.approx(0.8, abs=0.05)
    assert chances[1, class_of(0.9)] == pytest.approx(0.3, abs=0.05)
    before, after, positions = label.errors
    assert before == pytest.approx(0.9 - (0.8 + 0.8 * 0.3) / 1.8, abs=0.03)
    assert after < 0.03
    assert positions > 4000


def test_a_method_that_is_right_already_is_left_alone() -> None:
    label = Calibration().of("standalone")
    rng = np.random.default_rng(2)
    for _ in range(4000):
        said = float(rng.random())
        label.learn((said,), 1, int(rng.random() < said))
    before, after, _ = label.errors
    assert max(before, after) < 0.05


def test_positions_behind_the_first_rejection_say_nothing() -> None:
    label = Calibration().of("suffix")
    label.learn((0.9,) * 8, 8, 2)
    assert label.seen[:, class_of(0.9)].tolist()[:4] == [1, 1, 1, 0]
    assert label.kept[:, class_of(0.9)].tolist()[:4] == [1, 1, 0, 0]


def test_labels_do_not_mix() -> None:
    calibration = Calibration()
    for _ in range(100):
        calibration.of("suffix").learn((0.9,), 1, 0)
    assert calibration.of("suffix").chances[0, class_of(0.9)] < 0.1
    assert calibration.of("suffix poet").chances[0, class_of(0.9)] > 0.8


def test_a_change_of_text_is_followed() -> None:
    label = Calibration().of("suffix")
    for kept in (1, 0):
        for _ in range(8000):
            label.learn((0.9,), 1, kept)
    assert label.chances[0, class_of(0.9)] < 0.35
