"""Heads that come with draftmesh are found by the name of their target, and by nothing else."""

from pathlib import Path

import pytest

from drafter.checkpoints import bundled as module
from drafter.checkpoints.bundled import bundled, targets


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with one head, of method eagle3 for the model `tiny`."""
    monkeypatch.setattr(module, "HERE", tmp_path / "heads")
    monkeypatch.chdir(tmp_path)
    head = tmp_path / "heads" / "tiny" / "eagle3"
    head.mkdir(parents=True)
    (head / "config.json").touch()
    return head


def test_a_head_is_found_by_target_and_method(here: Path) -> None:
    assert bundled("tiny", "eagle3") == here
    assert bundled("tiny", "dflash") is None
    assert bundled("other", "eagle3") is None
    assert targets() == ["tiny"]


@pytest.mark.parametrize("target", ["", ".", "../heads/tiny", "owner/tiny", "/tiny"])
def test_only_a_name_is_one(here: Path, target: str) -> None:  # noqa: ARG001
    assert bundled(target, "eagle3") is None


def test_a_folder_of_the_same_name_is_somebody_s_own_model(here: Path) -> None:  # noqa: ARG001
    Path("tiny").mkdir()
    assert bundled("tiny", "eagle3") is None
