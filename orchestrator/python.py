"""Running our own modules in other processes, wherever the user happens to stand."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def command(module: str, *arguments: str) -> list[str]:
    """This interpreter with `module`; a folder that the user works in must not replace what it imports."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, so that the module is found where we were found."""
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), **(extra or {})}
