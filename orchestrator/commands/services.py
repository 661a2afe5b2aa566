"""Which of the running services a command is about, and how one is ended."""

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Final

import psutil

from orchestrator.commands.output import FAILED, complain, say
from protocol.rundir import ServiceState, running

GLANCE: Final = 0.1
"""Seconds between two looks at what another process does."""


class NoServiceError(Exception):
    """There is no such service; the text is one sentence for the user."""


def chosen(name: str | None) -> ServiceState:
    """The service of that name, else the only one that runs."""
    services = running()
    names = ", ".join(service.name for service in services)
    if name is not None:
        for service in services:
            if service.name == name:
                return service
        raise NoServiceError(f"No service {name!r} runs here; there is {names or 'none'}.")
    if not services:
        raise NoServiceError("No service runs here; `orchestrator up` starts one.")
    if len(services) > 1:
        raise NoServiceError(f"Several services run here, choose with --service: {names}.")
    return services[0]


def down(name: str | None, *, every: bool, now: bool, seconds: float) -> int:
    """End services, in order or at once, and wait until they are gone."""
    services = running() if every else [chosen(name)]
    found = [(service, process) for service in services if (process := _process(service))]
    until = time.monotonic() + seconds
    for _, process in found:
        for _ in range(2 if now else 1):
            _signal(process)
    alive = [service.name for service, _ in found if not ended(service, until)]
    for service, _ in found:
        if service.name in alive:
            complain(f"{service.name} has not ended in {seconds:g} s; --now ends it at once.")
        else:
            say(f"  {service.name} stopped")
    return FAILED if alive else 0


def ended(service: ServiceState, until: float) -> bool:
    """Block until a service is over, or until that time of the monotonic clock. Nobody tells: it is looked for."""
    pause = threading.Event()
    while service.name in {each.name for each in running()}:
        if time.monotonic() >= until:
            return False
        pause.wait(GLANCE)
    return True


def _process(service: ServiceState) -> psutil.Process | None:
    try:
        return psutil.Process(service.pid)
    except psutil.NoSuchProcess:
        return None


def _signal(process: psutil.Process) -> None:
    """As a person at its terminal would with Ctrl-C."""
    with suppress(ProcessLookupError):  # it went by itself
        os.kill(process.pid, signal.SIGTERM)
