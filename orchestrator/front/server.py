"""uvicorn as the front door wants it, and sockets that are bound before anybody hears of them."""

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from orchestrator.front.config import FrontConfig

LAST_WORDS: Final = 2
"""Seconds for answers that are complete to reach their clients after the mesh loop is over."""


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: `Control` has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(app: ASGIApp, certificate: Path | None = None, key: Path | None = None) -> Server:
    """It tells nobody what it is, and ends soon after it is asked to. With a certificate it speaks TLS."""
    return Server(
        uvicorn.Config(
            app,
            log_config=None,  # its lines are written as ours are
            log_level="warning",
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=LAST_WORDS,
            server_header=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A bound socket: the port is ours before anybody hears of it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(f"cannot listen on {host} port {port}: {reason}") from error


def address(host: str, listening: socket.socket, *, tls: bool = False) -> str:
    """Where it can be reached."""
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{listening.getsockname()[1]}"


def check_tls(config: FrontConfig) -> None:
    """An OSError names the file that is missing, or a pair that is none: before anybody is told that we are there."""
    certificate, key = config.tls_certificate, config.tls_key
    if certificate is None or key is None:
        return
    for path in (certificate, key):
        if not path.is_file():
            raise OSError(f"there is no file {path}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise OSError(f"{certificate} and {key} are no pair: {error.reason}") from error
