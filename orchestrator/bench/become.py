"""Become another program, keeping what `orchestrator.child` asked for: to end when our parent does."""

import os
import sys

if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)  # its libraries are not ours
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606
