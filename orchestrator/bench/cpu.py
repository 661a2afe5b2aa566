"""CPU seconds: of a process, and of everybody who has nothing to do with us."""

import psutil


def seconds(process: psutil.Process) -> float:
    """CPU seconds that a process has used, in user mode and in the kernel."""
    times = process.cpu_times()
    return times.user + times.system


class Others:
    """CPU time of neither this process nor its descendants since the watch began; none of them may begin or end."""

    def __init__(self) -> None:
        me = psutil.Process()
        self._ours = [me, *me.children(recursive=True)]
        self._begun = self._now()

    def seconds(self) -> float:
        """CPU seconds of others; clocks of the kernel are coarse, so never less than none."""
        return max(0.0, self._now() - self._begun)

    def _now(self) -> float:
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
        return busy - sum(seconds(process) for process in self._ours if process.is_running())
