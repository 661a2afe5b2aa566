"""What loads beside others that serve has a low priority, and takes it back for what it does then."""

import os
import threading
from pathlib import Path

import pytest

from protocol.quietly import NICE, quietly


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_work_gives_way(tmp_path: Path) -> None:
    before = niceness()
    assert quietly(niceness, tmp_path / "none") == max(before, NICE)
    assert niceness() == before


def test_what_goes_wrong_is_raised(tmp_path: Path) -> None:
    def broken() -> None:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        quietly(broken, tmp_path / "none")


def test_the_session_gives_way_meanwhile(tmp_path: Path) -> None:
    group = tmp_path / "autogroup"
    group.write_text("/autogroup-25 nice 0")
    assert quietly(group.read_text, group) == str(NICE)
    assert group.read_text() == "0"


def test_a_session_that_has_a_lower_priority_keeps_it(tmp_path: Path) -> None:
    group = tmp_path / "autogroup"
    group.write_text("/autogroup-25 nice 15")
    assert quietly(group.read_text, group) == "/autogroup-25 nice 15"
