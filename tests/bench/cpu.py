"""CPU seconds: of the processes of a service, and of everybody else on the machine."""

from collections.abc import Mapping
from typing import Final

import psutil

from tests.e2e.service import Service

ROLES: Final[Mapping[str, str]] = {
    "orchestrator.front": "front",
    "verifier": "verifier",
    "drafter": "drafter",
    "orchestrator": "launcher",
}
"""Modules by which processes of a service are told apart."""


def tree(service: Service) -> list[psutil.Process]:
    """The launcher and everything below it."""
    launcher = psutil.Process(service.process.pid)
    return [launcher, *launcher.children(recursive=True)]


def role(process: psutil.Process) -> str:
    """What a process of a service is; `other` if it was not started as a module of ours."""
    words = process.cmdline()
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    return ROLES.get(module, "other")


def seconds(process: psutil.Process) -> float:
    """CPU seconds that a process has used, in user mode and in the kernel."""
    times = process.cpu_times()
    return times.user + times.system


class Others:
    """How many cores were busy with neither this service nor this process since the watch began."""

    def __init__(self, service: Service) -> None:
        self._ours = [*tree(service), psutil.Process()]
        self._begun = self._now()

    def seconds(self) -> float:
        """CPU seconds of others; clocks of the kernel are coarse, so never less than none."""
        return max(0.0, self._now() - self._begun)

    def _now(self) -> float:
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
        return busy - sum(seconds(process) for process in self._ours)
