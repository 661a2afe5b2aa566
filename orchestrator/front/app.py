"""The HTTP side of the front door: the routes that OpenAI clients know, and those that operators ask."""

import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from orchestrator import __version__
from orchestrator.front.answer import About, Answer
from orchestrator.front.config import FrontConfig
from orchestrator.front.errors import ApiError
from orchestrator.front.fields import TOO_LONG
from orchestrator.front.generation import ClientGoneError, Door, Generation
from orchestrator.front.info import server_info
from orchestrator.front.keys import METRICS, OPEN, KeyGuard
from orchestrator.front.kinds import CHAT, COMPLETION, Kind
from orchestrator.front.messages import Query, Status
from orchestrator.front.metering import Quota
from orchestrator.front.openapi import document
from orchestrator.front.parsing import body, parse
from orchestrator.front.queries import MOST_CHOICES, query
from orchestrator.front.schema import ChatRequest, CompletionRequest, Request
from orchestrator.front.sse import EventStream
from orchestrator.front.text import Prompt, Tokenizer
from protocol.messages import PROTOCOL_VERSION


class Service:
    """What the routes share. `draw` gives the seed of a request that brings none."""

    def __init__(
        self,
        config: FrontConfig,
        door: Door,
        tokenizer: Tokenizer,
        draw: Callable[[], int] = lambda: secrets.randbits(64),
    ) -> None:
        self._config = config
        self._door = door
        self._tokenizer = tokenizer
        self._draw = draw
        self._started = int(time.time())

    async def chat(self, http: HttpRequest) -> Response:
        """`POST /v1/chat/completions`."""
        request = parse(
            ChatRequest, await body(http, self._config.max_body), self._door.status().context
        )
        status = self._open(request)
        try:
            prompt = await self._tokenizer.chat(request.messages, context=status.context)
        except ValueError as error:
            raise ApiError(400, str(error), "messages", TOO_LONG) from error
        return await self._answer(http, CHAT, request, [prompt], status)

    async def complete(self, http: HttpRequest) -> Response:
        """`POST /v1/completions`."""
        request = parse(
            CompletionRequest, await body(http, self._config.max_body), self._door.status().context
        )
        status = self._open(request)
        if len(request.prompt) * (request.n or 1) > MOST_CHOICES:
            raise ApiError(
                400, f"prompts times n is more than {MOST_CHOICES}", "n", "invalid_value"
            )
        try:
            prompts = [await self._prompt(each, status.context) for each in request.prompt]
        except ValueError as error:
            raise ApiError(400, str(error), "prompt", TOO_LONG) from error
        return await self._answer(http, COMPLETION, request, prompts, status)

    async def models(self, _http: HttpRequest) -> Response:
        """`GET /v1/models`."""
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def model(self, http: HttpRequest) -> Response:
        """`GET /v1/models/NAME`."""
        self._check_model(http.path_params["name"])
        return JSONResponse(self._card())

    async def health(self, _http: HttpRequest) -> Response:
        """`GET /health`: the process and its mesh loop are alive."""
        return JSONResponse({}, 200 if self._door.status().alive else 503)

    async def ready(self, _http: HttpRequest) -> Response:
        """`GET /ready`: a request would be served now."""
        status = self._door.status()
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
        return JSONResponse(server_info(self._config, self._door.status()))

    async def openapi(self, _http: HttpRequest) -> Response:
        """`GET /openapi.json`."""
        return JSONResponse(document())

    def guard(self, app: FastAPI) -> None:
        """Ask for keys and count what is asked with them, if that is configured."""
        config = self._config
        quota = Quota(config.key_rate, config.key_burst, config.key_concurrent)
        if not config.keys and quota == Quota(burst=config.key_burst):
            return
        app.add_middleware(
            KeyGuard,
            keys=config.keys,
            open_paths=OPEN | ({METRICS} if config.metrics_without_key else set()),
            quota=quota,
            clock=time.monotonic,
        )

    def _open(self, request: Request) -> Status:
        """Whether a request would find anybody."""
        self._check_model(request.model)
        status = self._door.status()
        if not status.ready:
            text = "the service is draining" if status.draining else "no verifier is there"
            raise ApiError(503, text, code="draining" if status.draining else "no_verifier")
        return status

    def _check_model(self, name: str | None) -> None:
        if name is not None and name != self._config.name:
            text = f"there is no model {name!r}, only {self._config.name!r}"
            raise ApiError(404, text, "model", "model_not_found")

    async def _prompt(self, prompt: str | Sequence[int], context: int) -> Prompt:
        if isinstance(prompt, str):
            return await self._tokenizer.encode(prompt, context=context)
        return Prompt(tuple(prompt))

    def _queries(
        self, kind: Kind, request: Request, prompts: Sequence[Prompt], status: Status
    ) -> list[Query]:
        seed = self._draw() if request.seed is None else request.seed
        words = self._tokenizer.words(request.bad_words or ())
        grammar = request.grammar[1]
        return [
            query(
                request,
                each.tokens,
                status,
                field=kind.prompt,
                seed=seed,
                bad_words=words,
                grammar=grammar,
            )
            for each in prompts
        ]

    async def _answer(
        self,
        http: HttpRequest,
        kind: Kind,
        request: Request,
        prompts: Sequence[Prompt],
        status: Status,
    ) -> Response:
        queries = self._queries(kind, request, prompts, status)
        about = About(
            model=self._config.name,
            number=uuid.uuid4().hex,
            created=int(time.time()),
            level=self._config.per_request_spec_decode_metrics,
            draft_length=status.draft_length,
        )
        answer = Answer(kind, request, prompts, self._tokenizer, about)
        generation = Generation(self._door, queries, http.receive)
        streams = False
        try:
            await generation.start()
            if request.stream:
                streams = True
                return EventStream(generation, answer.pieces(generation))
            return JSONResponse(await answer.whole(generation))
        except ApiError as error:
            raise error.named({"prompt": kind.prompt, "grammar": request.grammar[0]}) from error
        except ClientGoneError as error:
            return await _gone(http, error)
        finally:
            if not streams:
                generation.close()

    def _card(self) -> dict[str, Any]:
        return {
            "id": self._config.name,
            "object": "model",
            "created": self._started,
            "owned_by": "draftmesh",
            "max_model_len": self._door.status().context or None,
        }


def make_app(service: Service) -> FastAPI:
    """The routes, and one shape for all errors."""
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
