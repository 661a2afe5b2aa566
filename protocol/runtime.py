"""How the roles' command lines begin: arguments, logging, and numbers that nobody can guess."""

import argparse
import gc
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from protocol import logs
from protocol.config import HealthConfig
from protocol.endpoint import Endpoint
from protocol.names import Names
from protocol.process import Command, Control, Drain, Peers, announce
from protocol.spans import TakeSpans, no_tracer

clock: Final[Callable[[], float]] = time.monotonic

ConfigT = TypeVar("ConfigT", bound=BaseModel)


def draw() -> int:
    """An unpredictable 64-bit number: a dial or a link."""
    return secrets.randbits(64)


def day() -> float:
    """What to add to `clock` for the time of day. Whoever sets that changes it."""
    return time.time() - clock()


def arguments(program: str, config: type[ConfigT], argv: list[str]) -> tuple[ConfigT, bool]:
    """The configuration and whether a parent listens; a broken one ends the process with code 2."""
    parser = argparse.ArgumentParser(program)
    parser.add_argument("--config", required=True, help="the whole configuration as JSON")
    parser.add_argument("--supervised", action="store_true", help="obey lines on stdin")
    parser.add_argument("--log-level", default="INFO")
    parser.add_argument(
        "--log-format", choices=logs.FORMATS, default=logs.wanted(), help="text, or JSON lines"
    )
    given = parser.parse_args(argv)
    try:
        made = config.model_validate_json(given.config)
    except ValidationError as error:
        parser.error(str(error))
    role = program.rpartition(".")[2].split()[0]
    logs.configure(given.log_level, given.log_format, role, getattr(made, "node_id", ""))
    return made, given.supervised


def traces_wanted(endpoint: str) -> bool:
    """Whether somebody collects traces: by configuration, or by the variables that OpenTelemetry knows."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return bool(endpoint) or any(os.environ.get(name) for name in names)


@contextmanager
def tracing(role: str, node_id: str, endpoint: str) -> Iterator[TakeSpans]:
    """Whoever makes spans of records, if that is wanted; the last ones leave within a bound."""
    if not traces_wanted(endpoint):
        yield no_tracer
        return
    from protocol.tracing import Tracer, exporter  # noqa: PLC0415  # costs time and threads

    tracer = Tracer(role, node_id, exporter(endpoint), clock)
    try:
        yield tracer
    finally:
        tracer.close()


class Tells(Protocol):
    """Whoever is asked whether this process would take work, as `protocol.health.Health` is."""

    @property
    def address(self) -> str: ...

    def tell(self, *, serving: bool) -> None: ...

    def close(self) -> None: ...


class Unasked:
    """Nobody asks."""

    address: Final = ""

    def tell(self, *, serving: bool) -> None:
        pass

    def close(self) -> None:
        pass


def health(role: str, config: HealthConfig) -> Tells:
    """Whoever answers for this process, if that is configured; an OSError if the port cannot be had."""
    if config.port is None:
        return Unasked()
    from protocol.health import Health  # noqa: PLC0415  # costs time and threads

    return Health(role, config)


class Node(Protocol):
    """A loop that takes turns until it is stopped."""

    stopped: bool

    @property
    def serving(self) -> bool:
        """Whether it would take work, were it not draining."""

    def command(self, command: Command) -> None: ...

    def turn(self) -> bool: ...

    def pause(self) -> None: ...


def run(node: Node, control: Control, drain_seconds: float, health: Tells = Unasked()) -> None:  # noqa: B008  # empty
    """Turn until the node stops; a drain that takes longer than `drain_seconds` is cut short.

    Of a drain the world hears before the node does.
    """
    gc.collect()
    gc.freeze()  # what was loaded stays; going through it again takes as long as several forwards
    names = Names(control.put)
    cut = float("inf")
    while not node.stopped:
        for command in control.drain():
            if isinstance(command, Drain):
                health.tell(serving=False)
                cut = min(cut, clock() + drain_seconds)
            node.command(names.numeric(command) if isinstance(command, Peers) else command)
        if clock() >= cut:
            return
        more = node.turn()
        health.tell(serving=node.serving and cut == float("inf"))
        if not more and not node.stopped:
            node.pause()


class Peer(Node, Protocol):
    """A node of the mesh."""

    endpoint: Endpoint

    def close(self) -> None: ...


def serve(node: Peer, control: Control, node_id: str, drain_seconds: float, health: Tells) -> None:
    """Say that the node is ready, and run it until it is drained or stopped; then nothing of it is left."""
    control.on_command(node.endpoint.mesh.wake)
    announce("ready", node_id=node_id, address=node.endpoint.mesh.address, health=health.address)
    try:
        run(node, control, drain_seconds, health)
    finally:
        node.close()
        health.close()


def fail(text: str) -> NoReturn:
    """End with one clear sentence and code 1."""
    logging.getLogger("draftmesh").error(text)
    raise SystemExit(1)


def give_up(node_id: str, text: str) -> NoReturn:
    """End like `fail`; whoever started this node is told first."""
    announce("failed", node_id=node_id, detail={"error": text})
    fail(text)
