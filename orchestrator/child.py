"""How the launcher runs a role: `python -m orchestrator.child MODULE ARGUMENTS...`.

A child sees by the end of its stdin that its parent is gone, but only if it still reads. Where the system offers it, a
child asks to be killed then: so one that is frozen, or too busy to read, goes, too.
"""

import ctypes
import runpy
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Become the module that the first argument names."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
