"""Who may ask, and how much: with a key configured, every path needs one, but for those that probes ask."""

import hashlib
import hmac
import math
from collections.abc import Callable, Sequence
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.front.errors import ApiError
from orchestrator.front.metering import Meter, Quota

OPEN: Final = frozenset({"/health", "/ready"})
METRICS: Final = "/metrics"
_WHY: Final = {
    "rate": "too many requests a second with this key",
    "concurrent": "too many requests at once with this key",
}


class KeyGuard:
    """`Authorization: Bearer KEY`, compared in a time that tells nothing. Each key has a quota of its own for `POST`.

    Without keys everybody is let in, and all share one quota.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: Sequence[str],
        *,
        open_paths: frozenset[str] = OPEN,
        quota: Quota = Quota(),  # noqa: B008  # frozen
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._open = open_paths
        self._clock = clock
        self._meters = {_digest(key.encode()): Meter(quota) for key in keys}
        self._shared = None if keys else Meter(quota)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        meter = self._shared or self._known(scope)
        if meter is None and scope["path"] not in self._open:
            error = ApiError(401, "a valid API key is needed", code="invalid_api_key")
            response = JSONResponse(error.body, error.status, {"WWW-Authenticate": "Bearer"})
            await response(scope, receive, send)
        elif meter is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
        else:
            await self._metered(meter, scope, receive, send)

    async def _metered(self, meter: Meter, scope: Scope, receive: Receive, send: Send) -> None:
        why, seconds = meter.enter(self._clock())
        if why:
            error = ApiError(429, _WHY[why], code=f"{why}_limit")
            headers = {"Retry-After": str(math.ceil(seconds))}
            await JSONResponse(error.body, error.status, headers)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            meter.leave()

    def _known(self, scope: Scope) -> Meter | None:
        """The meter of the key that was brought; every key is compared, whichever fits."""
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = header.partition(b" ")
        brought, found = _digest(key), None
        for digest, meter in self._meters.items():
            if hmac.compare_digest(brought, digest):
                found = meter
        return found if scheme.lower() == b"bearer" else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
