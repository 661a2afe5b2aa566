"""Loading that gives way: a process that begins beside others that serve leaves them the processors.

Linux weighs the threads of a session by their niceness, and, where it has autogroups, whole sessions alike, whatever
their threads do: so what one launcher starts stays in one session. A thread may not take its niceness back, so the work
has one of its own.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

VARIABLE: Final = "DRAFTMESH_QUIETLY"
"""Set by a launcher for what it starts while others serve."""
NICE: Final = 5
"""A quarter of a processor beside each thread that wants it, too: the drafter is back soon, and hardly felt."""

ResultT = TypeVar("ResultT")


def if_asked(work: Callable[[], ResultT]) -> ResultT:
    """What `work` returns or raises: quietly where a launcher wishes so."""
    return quietly(work) if os.environ.get(VARIABLE) else work()


def quietly(work: Callable[[], ResultT]) -> ResultT:
    """What `work` returns or raises. It runs in a thread of low priority."""
    with ThreadPoolExecutor(1, "quietly", _give_way) as pool:
        return pool.submit(work).result()


def _give_way() -> None:
    thread = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
