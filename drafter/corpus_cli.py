"""`drafter corpus add|list|remove`: documents for drafters that run, given from the side while they serve."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from protocol.config import LinkConfig, MeshConfig
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.fingerprint import tokenizer_fingerprint
from protocol.link import Identity, LinkDown, LinkUp, Received, Rejected
from protocol.loop import pause
from protocol.messages import CorpusAdd, CorpusList, CorpusRemove, CorpusReport, Fingerprint
from protocol.rundir import ServiceState, running
from protocol.runtime import draw
from protocol.zmq_mesh import ZmqMesh

Command = CorpusAdd | CorpusRemove | CorpusList

CHUNK: Final = 400_000
"""Tokens in one command: at five bytes each, well below the cap of a frame."""
ANSWER: Final = 30.0
"""Seconds that a drafter has for each command."""


class CorpusError(Exception):
    """It could not be done; the text is one sentence for the user."""


def main(argv: list[str]) -> None:
    """Run one subcommand; the exit code is 1 when any drafter did not obey."""
    given = _arguments().parse_args(argv)
    try:
        service = None if given.drafter and given.tokenizer else _service(given.drafter)
        addresses = given.drafter or _drafters(service)
        folder = given.tokenizer or (Path(service.folder) if service else None)
        commands: list[Command] = [CorpusList()]
        if given.command == "add":
            commands = list(additions(given.name, _documents(given.files, folder)))
        elif given.command == "remove":
            commands = [CorpusRemove(given.name)]
        keys = given.mesh_keys or (Path(service.keys) if service and service.keys else None)
        tell = partial(
            _tell,
            commands=commands,
            tokenizer=tokenizer_fingerprint(folder) if folder else "",
            mesh=MeshConfig(keys=keys),
            patience=given.patience,
        )
        failed = _tell_all(addresses, tell)
    except CorpusError as error:
        sys.stderr.write(f"error: {error}\n")
        failed = True
    raise SystemExit(int(failed))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("drafter corpus", description=__doc__)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--drafter",
        action="append",
        metavar="ADDRESS",
        help="mesh address of a drafter, may be repeated; else all of the running service",
    )
    shared.add_argument(
        "--tokenizer", type=Path, metavar="FOLDER", help="model folder; else that of the service"
    )
    shared.add_argument(
        "--mesh-keys",
        type=Path,
        metavar="FOLDER",
        help="keys of the mesh; else those of the service",
    )
    shared.add_argument(
        "--patience", type=float, default=ANSWER, help="seconds that a drafter has for each command"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", parents=[shared], help="text files, each a document")
    add.add_argument("name")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    commands.add_parser("list", parents=[shared], help="what the drafters hold")
    remove = commands.add_parser("remove", parents=[shared], help="forget a corpus")
    remove.add_argument("name")
    return parser


def _service(drafters: Sequence[str] | None) -> ServiceState | None:
    services = running()
    if not services and not drafters:
        raise CorpusError("No service of yours runs here: start one, or name drafters (--drafter).")
    return services[0] if services else None


def _drafters(service: ServiceState | None) -> list[str]:
    nodes = service.nodes if service else ()
    addresses = [node.address for node in nodes if node.role == "drafter" and node.address]
    if not addresses:
        raise CorpusError("The running service has no drafters.")
    return addresses


def _documents(files: Sequence[Path], folder: Path | None) -> list[tuple[int, ...]]:
    if folder is None:
        raise CorpusError("Texts need the tokenizer of the model: name its folder (--tokenizer).")
    if not (folder / "tokenizer.json").is_file():
        raise CorpusError(f"The folder {folder} has no tokenizer.json.")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    documents = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CorpusError(f"The file {file} cannot be read as text: {error}.") from error
        documents.append(tuple(tokenizer.encode(text, add_special_tokens=False).ids))
    return documents


def additions(
    name: str, documents: Sequence[tuple[int, ...]], chunk: int = CHUNK
) -> Iterator[CorpusAdd]:
    """Commands of bounded size; a document longer than `chunk` tokens becomes several."""
    batch: list[tuple[int, ...]] = []
    size, first = 0, True
    for document in documents:
        for start in range(0, len(document), chunk):
            piece = document[start : start + chunk]
            if batch and size + len(piece) > chunk:
                yield CorpusAdd(name, tuple(batch), append=not first)
                batch, size, first = [], 0, False
            batch.append(piece)
            size += len(piece)
    if batch or first:
        yield CorpusAdd(name, tuple(batch), append=not first)


def _tell_all(addresses: Sequence[str], tell: Callable[[str], tuple[str, CorpusReport]]) -> bool:
    """Print what every drafter holds afterwards; whether any of them did not obey."""
    table = Table("drafter", "corpus", "documents", "tokens", "state")
    failed = False
    for address in addresses:
        try:
            node_id, report = tell(address)
        except CorpusError as error:
            table.add_row(address, "-", "-", "-", str(error))
            failed = True
            continue
        failed |= bool(report.error)
        if report.error or not report.entries:
            table.add_row(node_id, "-", "-", "-", report.error or "holds no documents")
        for entry in report.entries:
            state = "ready" if entry.ready else "being built"
            table.add_row(node_id, entry.name, str(entry.documents), str(entry.tokens), state)
    Console().print(table)
    return failed


def _tell(
    address: str,
    commands: Sequence[Command],
    tokenizer: str,
    mesh: MeshConfig,
    patience: float,
) -> tuple[str, CorpusReport]:
    """Say the commands one after the other; the drafter's name and its last report."""
    identity = Identity("tool", f"corpus-{os.getpid()}", Fingerprint(tokenizer=tokenizer))
    try:
        endpoint = Endpoint(ZmqMesh("", mesh), LinkConfig(), identity, draw)
    except LocalError as error:
        raise CorpusError(str(error)) from error
    try:
        return converse(endpoint, address, commands, patience)
    finally:
        endpoint.close()


def converse(
    endpoint: Endpoint, address: str, commands: Sequence[Command], answer: float = ANSWER
) -> tuple[str, CorpusReport]:
    """A whole conversation with one drafter, each command within `answer` seconds, or a CorpusError."""
    endpoint.dial(address, time.monotonic())
    waiting = list(commands)
    node_id, link = "", 0
    deadline = time.monotonic() + answer
    while time.monotonic() < deadline:
        for event in endpoint.drain(time.monotonic()):
            match event:
                case LinkUp():
                    node_id, link = event.node_id, event.link
                    endpoint.send(link, [waiting[0]], time.monotonic())
                case Received():
                    for report in event.messages:
                        if not isinstance(report, CorpusReport):
                            continue
                        waiting.pop(0)
                        if report.error or not waiting:
                            return node_id, report
                        endpoint.send(link, [waiting[0]], time.monotonic())
                        deadline = time.monotonic() + answer
                case LinkDown():
                    raise CorpusError(f"the link was lost ({event.reason})")
                case Rejected():
                    raise CorpusError(event.text)
        pause(endpoint, time.monotonic, deadline)
    raise CorpusError(f"no answer within {answer:g} s")
