"""How the launcher runs a role: `python -m orchestrator.child MODULE ARGUMENTS...`.

A child sees by the end of its stdin that its parent is gone, but only if it still reads. Where the system offers it, a
child asks to be killed then: so one that is frozen, or too busy to read, goes, too.

A drafter that is started again beside roles that serve leaves them the processors while it loads.
"""

import runpy
import sys
from importlib import import_module
from typing import Final

from protocol.process import die_with_parent
from protocol.quietly import if_asked

QUIET: Final = {"drafter": ("drafter.node", "drafter.proposers", "protocol.zmq_mesh")}
"""Modules that may load quietly, and which of their imports take long."""


def main() -> None:
    """Become the module that the first argument names."""
    die_with_parent()
    module = sys.argv.pop(1)
    if module in QUIET:
        if_asked(lambda: [import_module(each) for each in QUIET[module]])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
