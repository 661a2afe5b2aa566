"""`orchestrator version`: ours, and with JSON those that matter when something does not fit together."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Final

from orchestrator import __version__
from orchestrator.commands.output import data, out
from protocol.messages import PROTOCOL_VERSION

SHOWN: Final = ("torch", "transformers", "pyzmq", "msgspec", "grpcio", "opentelemetry-sdk")


def version(*, as_json: bool) -> int:
    """One line, or everything."""
    if not as_json:
        out.print(f"draftmesh {__version__}")
        return 0
    data(
        {
            "version": __version__,
            "protocol": PROTOCOL_VERSION,
            "python": platform.python_version(),
            "packages": {name: of(name) for name in SHOWN},
        }
    )
    return 0


def of(package: str) -> str | None:
    """The installed version, if there is one. Nothing is imported for it."""
    try:
        return installed(package)
    except PackageNotFoundError:
        return None
