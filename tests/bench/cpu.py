"""CPU seconds: of the processes of a service, and of everybody else on the machine."""

import psutil

from tests.e2e.service import Service


def tree(service: Service) -> list[psutil.Process]:
    """The launcher and everything below it."""
    launcher = psutil.Process(service.process.pid)
    return [launcher, *launcher.children(recursive=True)]


def roles(service: Service) -> dict[int, str]:
    """What each process of a service is, by its id."""
    assert service.state
    return {service.process.pid: "launcher"} | {node.pid: node.role for node in service.state.nodes}


def seconds(process: psutil.Process) -> float:
    """CPU seconds that a process has used, in user mode and in the kernel."""
    times = process.cpu_times()
    return times.user + times.system


class Others:
    """CPU time of neither this service nor this process since the watch began."""

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
