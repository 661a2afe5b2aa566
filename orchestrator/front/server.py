"""uvicorn as the front door wants it, and sockets that are bound before anybody hears of them."""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

LAST_WORDS: Final = 2
"""Seconds for answers that are complete to reach their clients after the mesh loop is over."""


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: `Control` has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(app: ASGIApp) -> Server:
    """It tells nobody what it is, and ends soon after it is asked to."""
    return Server(
        uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=LAST_WORDS,
            server_header=False,
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


def address(host: str, listening: socket.socket) -> str:
    """Where it can be reached."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"
