"""What the page is told, once a second, as long as anybody looks; and the routes under which it is found."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from orchestrator import __version__
from orchestrator.front.dashboard.history import History, reading
from orchestrator.front.dashboard.page import HEADERS, PAGE
from orchestrator.front.dashboard.topology import Topology
from orchestrator.front.dashboard.visits import Visits
from orchestrator.front.errors import ApiError
from orchestrator.front.messages import Status
from orchestrator.front.sse import encode
from orchestrator.traces.files import picked, read
from orchestrator.traces.picture import svg
from orchestrator.traces.reading import SpanFileError, traces
from orchestrator.traces.waterfall import waterfall
from protocol.messages import Report

EVERY: Final = 1.0
"""Seconds between two looks."""
MOST_VIEWERS: Final = 32
"""Pages that may look at once."""

Reports = Callable[[], Sequence[Report]]


class Feed:
    """Looks at the service once a second while it `run`s; `clock` is that of `visits`, `spans` a folder of them."""

    def __init__(
        self,
        model: str,
        status: Callable[[], Status],
        reports: Reports,
        visits: Visits,
        *,
        spans: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        day: Callable[[], float] = time.time,
    ) -> None:
        self._about = {"version": __version__, "model": model, "traces": spans is not None}
        self._status = status
        self._reports = reports
        self._visits = visits
        self._spans = spans
        self._clock = clock
        self._day = day
        self._history = History()
        self._topology = Topology()
        self._picture: dict[str, Any] = {}
        self._looks = 0
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._viewers = 0

    # --- the rhythm -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is closed."""
        while not self._over.is_set():
            self.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), EVERY)

    def look(self) -> None:
        """Take notice of how it is now, and wake those who wait for that."""
        reports, status, now = self._reports(), self._status(), self._day()
        self._history.add(reading(reports, now))
        self._picture = {
            **self._about,
            "now": round(now, 1),
            "state": _state(status),
            "speculating": status.speculating,
            "gain": round(self._history.gain, 3),
            "shares": self._history.shares(),
            **self._topology.look(reports, now),
        }
        self._looks += 1
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Nobody is told anything any more."""
        self._over.set()
        self._news.set()

    # --- what a page hears ------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[bytes, None]:
        """At first everything, then what is new."""
        self._viewers += 1
        try:
            seen, version = max(0, self._looks - len(self._history.points)), 0
            while not self._over.is_set():
                news = self._news  # what happens while this event leaves is not missed
                if self._looks:
                    requests = self._visits.since(version, self._clock())
                    fresh = self._looks - seen
                    points = self._history.points
                    seen, version = self._looks, self._visits.version
                    tail = list(islice(points, max(0, len(points) - fresh), None))
                    yield encode({**self._picture, "points": tail, "requests": requests})
                await news.wait()
        finally:
            self._viewers -= 1

    # --- routes -----------------------------------------------------------------------------------

    async def page(self, _http: Request) -> Response:
        """`GET /dashboard`: it holds no data."""
        return HTMLResponse(PAGE, headers=HEADERS)

    async def stream(self, _http: Request) -> Response:
        """`GET /dashboard/events`: server-sent events."""
        if self._viewers >= MOST_VIEWERS:
            raise ApiError(503, f"{self._viewers} dashboards are open, which is the limit")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self.events(), 200, headers, "text/event-stream")

    async def trace(self, http: Request) -> Response:
        """`GET /dashboard/trace?id=...`: a request over all processes as a picture, where spans are kept here."""
        number = http.query_params.get("id", "")
        if self._spans is None or not number:
            raise ApiError(404, "no spans are kept here: `up --trace` does", "id")
        drawn = await asyncio.to_thread(_drawn, self._spans, number)
        if drawn is None:
            raise ApiError(404, f"there is no trace {number}, or not yet", "id")
        return Response(drawn, 200, {"Cache-Control": "no-store"}, "image/svg+xml")


def _state(status: Status) -> str:
    if status.draining:
        return "draining"
    return "ready" if status.ready else "no verifier"


def _drawn(folder: Path, number: str) -> str | None:
    """None where there is none."""
    try:
        found = picked(traces(read(folder)), number)
    except (OSError, SpanFileError):
        return None
    return None if found is None else svg(waterfall(found))
