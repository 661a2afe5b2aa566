"""`orchestrator generate`: one answer, streamed to the terminal, and what speculation did for it."""

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx

from orchestrator.commands.output import FAILED, complain, out, progress, say
from orchestrator.commands.service import launch, reachable, serving
from orchestrator.commands.stream import Painter, StreamError, Tally, events, lengths_by, spans
from orchestrator.config import Config
from orchestrator.front.config import KEY_VARIABLE
from orchestrator.launch import Service
from orchestrator.models import MODELS, find
from protocol.rundir import running

CONNECT: Final = 10.0
"""Seconds to reach a service. An answer itself may take as long as it takes."""
DRAFTED_STYLE: Final = "green"


@dataclass(frozen=True, kw_only=True)
class _Place:
    url: str
    folder: Path | None


@dataclass(frozen=True)
class Wish:
    """What the user wants to be told."""

    prompt: str
    raw: bool = False
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    api_key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        key = (self.api_key or os.environ.get(KEY_VARIABLE) or "").split(",")[0].strip()
        return {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def path(self) -> str:
        return "/v1/completions" if self.raw else "/v1/chat/completions"

    @property
    def body(self) -> dict[str, Any]:
        said: dict[str, Any] = (
            {"prompt": self.prompt}
            if self.raw
            else {"messages": [{"role": "user", "content": self.prompt}]}
        )
        return said | {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "stream": True,
            "return_token_ids": True,
        }


def ask_running(wish: Wish, url: str | None) -> int | None:
    """Ask the service at `url`, else one that this user runs; the exit code, None if there is no service."""
    if url:
        bare = url.rstrip("/").removesuffix("/v1")
        return _ask(wish, _Place(url=bare, folder=_folder_of(bare, wish.headers)))
    for service in running():
        if service.url:
            return _ask(wish, _Place(url=reachable(service.url), folder=Path(service.folder)))
    return None


def ask_new(wish: Wish, config: Config) -> int:
    """Start a service for this one question, and leave nothing of it."""
    wish = replace(wish, api_key=config.front.api_key.get_secret_value())
    with ExitStack() as shown:
        report = shown.enter_context(progress())
        own = config.model_copy(update={"port": 0, "host": "127.0.0.1"})
        service = launch(own, report=report)
        try:
            if not serving(service):
                over = service.wait()
                text = over.text if over is not None else ""
                complain(text or "The service did not start.")
                return FAILED
            shown.close()
            return _ask(wish, _Place(url=service.url, folder=_served(config)))
        except KeyboardInterrupt:
            return 0
        finally:
            _end(service)


def _end(service: Service) -> None:
    """In order; a Ctrl-C while that lasts ends it at once."""
    service.stop()
    try:
        service.wait()
    except KeyboardInterrupt:
        service.stop()
        service.wait()


def _ask(wish: Wish, place: _Place) -> int:
    """Stream the answer; a Ctrl-C ends it, and its statistics are printed all the same."""
    painter = Painter(lengths_by(place.folder) if place.folder and out.is_terminal else None)
    tally = Tally()
    begun = time.monotonic()
    code = 0
    try:
        _stream(wish, place.url, painter, tally)
    except KeyboardInterrupt:
        pass  # leaving is what frees everything on the other side
    except httpx.HTTPError as error:
        complain(f"The service at {place.url} does not answer: {error}.")
        code = FAILED
    except StreamError as error:
        complain(str(error))
        code = FAILED
    if tally.tokens:
        out.print()
        say(tally.line(time.monotonic() - begun), "dim")
    return code


def _stream(wish: Wish, url: str, painter: Painter, tally: Tally) -> None:
    timeout = httpx.Timeout(CONNECT, read=None)
    with httpx.stream(
        "POST", url + wish.path, json=wish.body, headers=wish.headers, timeout=timeout
    ) as response:
        if response.is_error:
            response.read()
            raise StreamError(_reason(response))
        for span in spans(events(response.iter_lines()), painter, tally):
            style = DRAFTED_STYLE if span.drafted else None
            out.print(span.text, end="", style=style, markup=False, soft_wrap=True)


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The service answered with status {response.status_code}."


def _served(config: Config) -> Path | None:
    model = MODELS.get(config.target)
    return find(model) if model else Path(config.target)


def _folder_of(url: str, headers: Mapping[str, str]) -> Path | None:
    """Where the tokenizer of a service lies, if it is a model that is known and here."""
    try:
        name = httpx.get(url + "/v1/models", headers=headers, timeout=CONNECT).json()["data"][0][
            "id"
        ]
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
    model = MODELS.get(name)
    return find(model) if model else None
