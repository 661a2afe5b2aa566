"""Environments for programs that would not go together with ours: each is made once, from the package index."""

import subprocess
import venv
from pathlib import Path
from typing import Final

from protocol.rundir import cache_folder

TORCH: Final = "torch==2.13.0"
"""Whoever brings torch brings this one: the index has others that are made for devices which nobody here has."""


def folder(name: str) -> Path:
    """Where the environment lies."""
    return cache_folder() / "interop" / name


def environment(place: Path, *packages: str) -> Path:
    """The interpreter of an environment that has these; one that has others is made anew."""
    python, ready = place / "bin" / "python", place / "ready"
    wanted = "\n".join(packages)
    if not ready.is_file() or ready.read_text(encoding="utf-8") not in {wanted, ""}:
        venv.create(place, with_pip=True, clear=True)
        constraints = place / "constraints.txt"
        constraints.write_text(TORCH + "\n", encoding="utf-8")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
        subprocess.run([*pip, *packages], check=True)
        ready.write_text(wanted, encoding="utf-8")
    return python


def version(python: Path, package: str) -> str:
    """What is installed there."""
    script = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    done = subprocess.run(
        [python, "-c", script, package], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
