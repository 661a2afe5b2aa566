"""Server-sent events."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.front.generation import Generation

DONE: Final = b"data: [DONE]\n\n"


class EventStream(Response):
    """A response that is written as it comes; it owns the generation behind it."""

    media_type = "text/event-stream"

    def __init__(self, generation: Generation, events: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._generation = generation
        self._events = events

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._generation.close()


def encode(event: Mapping[str, Any]) -> bytes:
    """One event."""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"
