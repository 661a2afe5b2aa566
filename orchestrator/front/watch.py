"""What the front door offers to those who watch: numbers, on the API's port or one of its own; a dashboard; traces."""

import asyncio
import socket
from contextlib import suppress

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from orchestrator.front.config import FrontConfig
from orchestrator.front.dashboard.door import WatchedDoor
from orchestrator.front.dashboard.feed import Feed
from orchestrator.front.dashboard.visits import Visits
from orchestrator.front.generation import Door
from orchestrator.front.keys import DASHBOARD, EVENTS, METRICS, TRACE
from orchestrator.front.metrics import Metrics
from orchestrator.front.node import FrontNode
from orchestrator.front.server import Server, server
from orchestrator.front.stories import Story
from protocol.runtime import traces_wanted
from protocol.spans import folder_of


class Watch:
    """Made before the app, which speaks with `door`; `around` is what is served in the end."""

    def __init__(self, config: FrontConfig, node: FrontNode) -> None:
        self._config = config
        self._metrics = Metrics(node.reports, config.name, config.metrics_prefix)
        self._page: Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        visits = Visits()
        self.feed = Feed(
            config.name,
            node.status,
            node.reports,
            visits,
            spans=folder_of(config.otlp_traces_endpoint),
        )
        self.door: Door = WatchedDoor(node, visits)
        self._traces = None
        if traces_wanted(config.otlp_traces_endpoint):
            from orchestrator.front import tracing  # noqa: PLC0415
            from protocol.tracing import exporter  # noqa: PLC0415

            self._traces = tracing.provider(config.node_id, exporter(config.otlp_traces_endpoint))
            self.door = tracing.TracedDoor(self.door)

    @property
    def story(self) -> Story | None:
        """What goes on around gRPC calls, if anything does."""
        if self._traces is None:
            return None
        from orchestrator.front.tracing import TracedCalls  # noqa: PLC0415

        return TracedCalls(self._traces, self._config.name)

    def around(self, app: FastAPI) -> ASGIApp:
        """The app with what is watched of it."""
        if self._config.metrics_open:
            app.add_route(METRICS, self._metrics.answer, methods=["GET"])
        if self._config.dashboard:
            app.add_route(DASHBOARD, self.feed.page, methods=["GET"])
            app.add_route(EVENTS, self.feed.stream, methods=["GET"])
            app.add_route(TRACE, self.feed.trace, methods=["GET"])
        if self._traces is None:
            return app
        from orchestrator.front.tracing import Traced  # noqa: PLC0415

        return Traced(app, self._traces, self._config.name)

    def start(self, listening: socket.socket | None) -> None:
        """Begin to look; serve the numbers on a port of their own too, if there is one."""
        if self._config.dashboard:
            self._tasks.append(asyncio.create_task(self.feed.run()))
        if listening is None:
            return
        page = Starlette(routes=[Route(METRICS, self._metrics.answer)])
        self._page = server(page, self._config.tls_certificate, self._config.tls_key)
        self._tasks.append(asyncio.create_task(self._page.serve([listening])))

    async def close(self) -> None:
        """Send the last spans, within a bound; stop the rest."""
        self.feed.close()
        if self._page is not None:
            self._page.should_exit = True
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks)
        if self._traces is not None:
            from protocol.tracing import close  # noqa: PLC0415

            await asyncio.to_thread(close, self._traces.shutdown)
