"""Faults planted into the code on purpose: the simulation is worth what it notices of them.

A fault is a small edit of one method, compiled again and put back when the context ends. An edit that no longer fits
the source fails loudly: then the fault must be written anew.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from tests.sim.edits import Fault, applied
from tests.sim.faults_of_links import LINKS
from tests.sim.faults_of_serving import SERVING
from tests.sim.faults_of_speculation import SPECULATION
from tests.sim.history import History

PLANTED: Final[Mapping[str, Fault]] = {**SPECULATION, **LINKS, **SERVING}


def planted(name: str) -> AbstractContextManager[None]:
    """The code has this fault inside the context."""
    return applied(PLANTED[name])


def noticed(name: str, histories: int, start: int = 0) -> tuple[int, str] | None:
    """How many histories it took to notice the fault, and what was noticed; None if that many show nothing."""
    with planted(name):
        for count in range(1, histories + 1):
            try:
                History(start + count - 1).run()
            except Exception as error:  # noqa: BLE001  # a fault may break anything
                return count, f"{type(error).__name__}: {error}"
    return None
