"""Running our own modules in other processes, wherever the user happens to stand."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TUNABLES: Final = "GLIBC_TUNABLES"
HUGE_PAGES: Final = "glibc.malloc.hugetlb"
"""Large pieces of memory in pages of 2 MiB where the system grants them: weights are read in every step, and through
pages of 4 KiB that took 1.5 to 4 times as long (`docs/benchmarks.md`). C libraries that do not know it ignore it."""


def command(module: str, *arguments: str) -> list[str]:
    """This interpreter with `module`; a folder that the user works in must not replace what it imports."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, so that the module is found where we were found; with huge pages unless the user decided about them."""
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    tunables = os.environ.get(TUNABLES, "")
    if HUGE_PAGES not in tunables:
        tunables = ":".join(filter(None, [tunables, f"{HUGE_PAGES}=1"]))
    ours = {"PYTHONPATH": os.pathsep.join(places), TUNABLES: tunables}
    return {**os.environ, **ours, **(extra or {})}
