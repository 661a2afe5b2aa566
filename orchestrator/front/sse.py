"""Server-sent events."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.front.errors import ApiError
from orchestrator.front.generation import ClientGoneError

DONE: Final = b"data: [DONE]\n\n"


class EventStream(Response):
    """A response that is written as it comes; `close` is called when it is over, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[Mapping[str, Any]], close: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._close = close

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            async for event in _written(self._events):
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._close()


async def _written(events: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[bytes]:
    """An error is an event too."""
    try:
        async for event in events:
            yield encode(event)
        yield DONE
    except ApiError as error:
        yield encode(error.body)
    except ClientGoneError:
        return


def encode(event: Mapping[str, Any]) -> bytes:
    """One event."""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"
