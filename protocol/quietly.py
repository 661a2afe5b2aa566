"""Loading that gives way: a process that begins beside others that serve leaves them the processors.

Linux weighs threads by their own niceness, and sessions by that of their autogroup where it has these. A thread may not
take its niceness back, so the work has one of its own; a session may, if not in the same tenth of a second.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

VARIABLE: Final = "DRAFTMESH_QUIETLY"
"""Set by a launcher for what it starts while others serve."""
NICE: Final = 5
"""A quarter of a processor beside each thread that wants it, too: the drafter is back soon, and hardly felt."""
AUTOGROUP: Final = Path("/proc/self/autogroup")
TRIES: Final = 40
PAUSE: Final = 0.05
"""Seconds between two tries: the kernel takes one change of any session in a tenth of a second."""

ResultT = TypeVar("ResultT")


def if_asked(work: Callable[[], ResultT]) -> ResultT:
    """What `work` returns or raises: quietly where a launcher wishes so."""
    return quietly(work) if os.environ.get(VARIABLE) else work()


def quietly(work: Callable[[], ResultT], autogroup: Path = AUTOGROUP) -> ResultT:
    """What `work` returns or raises. It runs in a thread of low priority, while the whole session has a low one.

    Only for processes that have a session of their own, as the launcher's children do.
    """
    with _session(autogroup), ThreadPoolExecutor(1, "quietly", _give_way) as pool:
        return pool.submit(work).result()


def _give_way() -> None:
    thread = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


@contextmanager
def _session(autogroup: Path) -> Iterator[None]:
    before = _niceness(autogroup)
    lowered = before is not None and before < NICE and _weigh(autogroup, NICE)
    try:
        yield
    finally:
        if lowered:
            assert before is not None
            _weigh(autogroup, before)


def _niceness(autogroup: Path) -> int | None:
    """What the file says, which is like `/autogroup-25 nice 0`; None where there is none."""
    with suppress(OSError, ValueError):
        return int(autogroup.read_text().rpartition(" ")[2])
    return None


def _weigh(autogroup: Path, niceness: int) -> bool:
    pause = threading.Event()
    for _ in range(TRIES):
        try:
            autogroup.write_text(str(niceness))
        except BlockingIOError:
            pause.wait(PAUSE)
        except OSError:
            return False
        else:
            return True
    return False
