"""Who may ask: with a key configured, every path needs it, but for those that probes and scrapers ask."""

import hashlib
import hmac
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.front.errors import ApiError

OPEN: Final = frozenset({"/health", "/metrics", "/ping", "/ready", "/version"})


class KeyGuard:
    """`Authorization: Bearer KEY`, compared in a time that tells nothing."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._digest = _digest(key.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN or self._knows(scope):
            await self._app(scope, receive, send)
            return
        error = ApiError(401, "a valid API key is needed", code="invalid_api_key")
        response = JSONResponse(error.body, error.status, {"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = header.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(_digest(key), self._digest)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
