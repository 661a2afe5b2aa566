"""How a process logs: one line an event on stderr, as text or as JSON.

What an event is about travels beside its text, by name: `request` and `trace` above all, so that lines of several
processes can be put together.
"""

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal

VARIABLE: Final = "DRAFTMESH_LOG_FORMAT"
"""Where a process finds the format that nobody named in its arguments."""
FORMATS: Final = ("text", "json")
Format = Literal["text", "json"]
TEXT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_event(log: logging.Logger, text: str, **fields: object) -> None:
    """Something happened; fields that are empty are left out."""
    if log.isEnabledFor(logging.INFO):
        about = {name: value for name, value in fields.items() if value not in {None, ""}}
        log.info(text, extra={"fields": about})


def wanted() -> str:
    """The format that the environment names."""
    return os.environ.get(VARIABLE, FORMATS[0])


def configure(level: str, form: str, role: str, node_id: str) -> None:
    """From now on everything that this process logs, and what it dies of, is written so."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(role, node_id) if form == "json" else TextLines())
    logging.basicConfig(level=level, handlers=[handler])
    if form == "json":
        logging.captureWarnings(capture=True)
        sys.excepthook = _died
        threading.excepthook = lambda said: _died(
            said.exc_type, said.exc_value or said.exc_type(), said.exc_traceback
        )


class TextLines(logging.Formatter):
    """For people: fields stand behind the text."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # as logging has it
        fields = getattr(record, "fields", {})
        return " ".join(
            [super().formatMessage(record), *(f"{k}={_shown(v)}" for k, v in fields.items())]
        )


class JsonLines(logging.Formatter):
    """For programs: an object a line, the time first."""

    def __init__(self, role: str, node_id: str) -> None:
        super().__init__()
        self._whose = {"role": role, "node": node_id}

    def format(self, record: logging.LogRecord) -> str:
        day = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, Any] = {
            "time": day.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._whose,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _died(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("draftmesh").critical("%s", error, exc_info=(kind, error, trace))
