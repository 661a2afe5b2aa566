"""What loads beside others that serve has a low priority, and takes it back for what it does then."""

import os
import threading

import pytest

from protocol.quietly import NICE, quietly


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_work_gives_way() -> None:
    before = niceness()
    assert quietly(niceness) == max(before, NICE)
    assert niceness() == before


def test_what_goes_wrong_is_raised() -> None:
    def broken() -> None:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        quietly(broken)
