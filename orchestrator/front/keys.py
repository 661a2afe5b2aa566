"""Who may ask, and how much: with a key configured, every path needs one, but for those that probes ask."""

import hashlib
import hmac
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.front.config import FrontConfig
from orchestrator.front.errors import ApiError
from orchestrator.front.metering import Meter, Quota

OPEN: Final = frozenset({"/health", "/ready"})
METRICS: Final = "/metrics"
DASHBOARD: Final = "/dashboard"
EVENTS: Final = "/dashboard/events"
TRACE: Final = "/dashboard/trace"
NUMBERS: Final = frozenset({METRICS, EVENTS, TRACE})
"""Where numbers are told, which may need no key where all else does."""
_WHY: Final = {
    "rate": "too many requests a second with this key",
    "concurrent": "too many requests at once with this key",
}


class Keys:
    """Keys and what was asked with each. Without keys everybody is let in, and all share one quota."""

    def __init__(self, keys: Sequence[str], quota: Quota, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._meters = {_digest(key.encode()): Meter(quota) for key in keys}
        self._shared = None if keys else Meter(quota)
        self.counts = bool(keys) or quota != Quota(burst=quota.burst)
        """Whether anybody could be refused."""

    @classmethod
    def of(cls, config: FrontConfig, clock: Callable[[], float]) -> "Keys":
        quota = Quota(config.key_rate, config.key_burst, config.key_concurrent)
        return cls(config.keys, quota, clock)

    def meter(self, authorization: bytes) -> Meter | None:
        """Of whoever brings this header; None: nobody may ask so. Every key is compared, whichever fits."""
        if self._shared is not None:
            return self._shared
        scheme, _, key = authorization.partition(b" ")
        brought, found = _digest(key), None
        for digest, meter in self._meters.items():
            if hmac.compare_digest(brought, digest):
                found = meter
        return found if scheme.lower() == b"bearer" else None

    @contextmanager
    def metered(self, meter: Meter) -> Iterator[None]:
        """While a request runs; an ApiError if that would be too much."""
        why, seconds = meter.enter(self._clock())
        if why:
            raise ApiError(429, _WHY[why], code=f"{why}_limit", after=seconds)
        try:
            yield
        finally:
            meter.leave()


def unknown() -> ApiError:
    """For those who bring no key, or a wrong one."""
    return ApiError(401, "a valid API key is needed", code="invalid_api_key")


class KeyGuard:
    """`Authorization: Bearer KEY`, compared in a time that tells nothing. Only `POST` counts for a key's quota."""

    def __init__(self, app: ASGIApp, keys: Keys, *, open_paths: frozenset[str] = OPEN) -> None:
        self._app = app
        self._keys = keys
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        meter = self._keys.meter(header)
        if meter is None and scope["path"] not in self._open:
            error = unknown()
            response = JSONResponse(error.body, error.status, {"WWW-Authenticate": "Bearer"})
            await response(scope, receive, send)
        elif meter is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
        else:
            await self._metered(meter, scope, receive, send)

    async def _metered(self, meter: Meter, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._keys.metered(meter):
                await self._app(scope, receive, send)
        except ApiError as error:  # the app answers its own
            response = JSONResponse(error.body, error.status, error.headers)
            await response(scope, receive, send)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
