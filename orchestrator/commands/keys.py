"""`orchestrator keys`: this node's key, and those of the nodes that it lets in."""

import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from rich.table import Table
from rich.text import Text

from orchestrator.commands.output import FAILED, complain, data, out, say
from protocol.errors import LocalError
from protocol.keys import ALLOWED, OWN, KeyRing, default_folder, read_public


def new(folder: Path | None) -> int:
    """Make a pair and say where it lies."""

    def run(ring: KeyRing) -> None:
        ring.new()
        say(f"A new key lies in {ring.folder}; start nodes with --mesh-keys {ring.folder}.")
        say(
            f"Its public half, {ring.folder / OWN}.key, is for the nodes that are to let this one in."
        )

    return _with(folder, run)


def allow(name: str, key: str, folder: Path | None) -> int:
    """Let a node in; nodes that run notice at the next handshake."""

    def run(ring: KeyRing) -> None:
        ring.allow(name, read_public(key))
        say(
            f"{name} is let in from now on ({ring.folder / ALLOWED / name}.key; remove it to undo)."
        )

    return _with(folder, run)


def listed(folder: Path | None, *, as_json: bool) -> int:
    """A table of the keys that are let in."""

    def run(ring: KeyRing) -> None:
        if as_json:
            data([{"name": name, "key": key.decode()} for key, name in ring.allowed().items()])
            return
        table = Table("name", "public key")
        for key, name in ring.allowed().items():
            table.add_row(name, Text(key.decode()), style="bold" if name == OWN else None)
        out.print(table)

    return _with(folder, run)


def secret(name: str, folder: Path | None) -> int:
    """The files that nodes need, as a manifest; whoever can read it can join the mesh."""

    def run(ring: KeyRing) -> None:
        ring.own()
        files = [ring.folder / f"{OWN}.key", ring.folder / f"{OWN}.key_secret"]
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "type": "Opaque",
            "stringData": {path.name: path.read_text() for path in files},
        }
        sys.stdout.write(yaml.safe_dump(manifest, sort_keys=False))
        if ring.allowed().keys() - {ring.own().public}:
            say(
                "Nodes with other keys that this folder allows are not in it: a Secret has no folders."
            )

    return _with(folder, run)


def _with(folder: Path | None, run: Callable[[KeyRing], None]) -> int:
    try:
        run(KeyRing(folder or default_folder()))
    except LocalError as error:
        complain(f"{str(error)[0].upper()}{str(error)[1:]}.")
        return FAILED
    return 0
