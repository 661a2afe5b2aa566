"""Where draftmesh keeps files of the user."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`DRAFTMESH_CACHE`, else `draftmesh` in the XDG cache folder. It need not exist."""
    if chosen := os.environ.get("DRAFTMESH_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "draftmesh"
