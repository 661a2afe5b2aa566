"""The HTTP side of the front door: the routes that OpenAI clients know, and those that operators ask."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from orchestrator import __version__
from orchestrator.front.desk import Desk, Order, RequestT
from orchestrator.front.errors import ApiError
from orchestrator.front.generation import ClientGoneError
from orchestrator.front.keys import DASHBOARD, NUMBERS, OPEN, KeyGuard
from orchestrator.front.openapi import document
from orchestrator.front.parsing import body, plain
from orchestrator.front.schema import ChatRequest, CompletionRequest, Request
from orchestrator.front.sse import EventStream
from protocol.messages import PROTOCOL_VERSION


class _Service:
    """What the routes share."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def chat(self, http: HttpRequest) -> Response:
        """`POST /v1/chat/completions`."""
        request = await self._read(http, ChatRequest)
        order = await self._desk.chat(request, partial(_left, http.receive))
        return await _answer(http, order, request)

    async def complete(self, http: HttpRequest) -> Response:
        """`POST /v1/completions`."""
        request = await self._read(http, CompletionRequest)
        order = await self._desk.complete(request, partial(_left, http.receive))
        return await _answer(http, order, request)

    async def models(self, _http: HttpRequest) -> Response:
        """`GET /v1/models`."""
        return JSONResponse({"object": "list", "data": [self._desk.card()]})

    async def model(self, http: HttpRequest) -> Response:
        """`GET /v1/models/NAME`."""
        self._desk.check_model(http.path_params["name"])
        return JSONResponse(self._desk.card())

    async def health(self, _http: HttpRequest) -> Response:
        """`GET /health`: the process and its mesh loop are alive."""
        return JSONResponse({}, 200 if self._desk.status.alive else 503)

    async def ready(self, _http: HttpRequest) -> Response:
        """`GET /ready`: a request would be served now."""
        status = self._desk.status
        body = {
            "ready": status.ready,
            "draining": status.draining,
            "verifiers": status.verifiers,
            "drafters": status.drafters,
            "speculating": status.speculating,
            "in_flight": status.in_flight,
        }
        return JSONResponse(body, 200 if status.ready else 503)

    async def version(self, _http: HttpRequest) -> Response:
        """`GET /version`."""
        return JSONResponse({"version": __version__, "protocol": PROTOCOL_VERSION})

    async def info(self, _http: HttpRequest) -> Response:
        """`GET /server_info`."""
        return JSONResponse(self._desk.info())

    async def openapi(self, _http: HttpRequest) -> Response:
        """`GET /openapi.json`."""
        return JSONResponse(document())

    def guard(self, app: FastAPI) -> None:
        """Ask for keys and count what is asked with them, if that is configured."""
        if self._desk.keys.counts:
            own = NUMBERS if self._desk.config.metrics_without_key else frozenset[str]()
            page = {DASHBOARD}  # it holds no data, and asks for the key
            app.add_middleware(KeyGuard, keys=self._desk.keys, open_paths=OPEN | own | page)

    async def _read(self, http: HttpRequest, kind: type[RequestT]) -> RequestT:
        return self._desk.read(kind, plain(await body(http, self._desk.config.max_body)))


def make_app(desk: Desk) -> FastAPI:
    """The routes, and one shape for all errors."""
    service = _Service(desk)
    app = FastAPI(title="draftmesh", version=__version__, openapi_url=None)
    routes: dict[str, tuple[str, Callable[[HttpRequest], Any]]] = {
        "/v1/chat/completions": ("POST", service.chat),
        "/v1/completions": ("POST", service.complete),
        "/v1/models": ("GET", service.models),
        "/v1/models/{name:path}": ("GET", service.model),
        "/health": ("GET", service.health),
        "/ping": ("GET", service.health),
        "/ready": ("GET", service.ready),
        "/version": ("GET", service.version),
        "/server_info": ("GET", service.info),
        "/openapi.json": ("GET", service.openapi),
    }
    for path, (method, handler) in routes.items():
        app.add_route(path, handler, methods=[method])
    app.add_exception_handler(ApiError, _refused)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _broken)
    service.guard(app)
    return app


async def _answer(http: HttpRequest, order: Order, request: Request) -> Response:
    streams = False
    try:
        await order.start()
        if request.stream:
            streams = True
            return EventStream(order.events(), order.close)
        return JSONResponse(await order.whole())
    except ClientGoneError as error:
        return await _gone(http, error)
    finally:
        if not streams:
            order.close()


async def _left(receive: Receive) -> None:
    """Wait until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refused(_http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error.body, error.status, error.headers)


async def _not_routed(http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{http.method} {http.url.path}: {error.detail}"
    headers = dict(error.headers or {})
    return JSONResponse(ApiError(error.status_code, text).body, error.status_code, headers)


async def _gone(_http: HttpRequest, _error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _broken(_http: HttpRequest, _error: Exception) -> Response:
    return JSONResponse(ApiError(500, "the front door itself failed", code="internal").body, 500)
