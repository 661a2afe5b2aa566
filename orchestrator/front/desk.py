"""From a request, however it came in, to its answer: the checks and the way that HTTP and gRPC share."""

import secrets
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from orchestrator.front.answer import About, Answer
from orchestrator.front.config import FrontConfig
from orchestrator.front.errors import ApiError
from orchestrator.front.fields import TOO_LONG
from orchestrator.front.generation import Door, Generation, Gone
from orchestrator.front.info import server_info
from orchestrator.front.keys import Keys
from orchestrator.front.kinds import CHAT, COMPLETION, Kind
from orchestrator.front.logprobs import Json
from orchestrator.front.messages import Failure, Query, Status
from orchestrator.front.parsing import checked
from orchestrator.front.queries import MOST_CHOICES, query
from orchestrator.front.schema import ChatRequest, CompletionRequest, Request
from orchestrator.front.text import Prompt, Tokenizer

RequestT = TypeVar("RequestT", bound=Request)


class Order:
    """A request that nothing is wrong with, and its answer. Whoever starts it must `close` it.

    Errors that come later are ApiErrors too, with the field at fault as the client wrote it.
    """

    def __init__(self, generation: Generation, answer: Answer, names: Mapping[str, str]) -> None:
        self._generation = generation
        self._answer = answer
        self._names = names

    @property
    def number(self) -> str:
        """What its answer is called, as `id` there has it."""
        return self._answer.number

    async def start(self) -> None:
        """Ask the mesh, and wait for its first word."""
        try:
            await self._generation.start()
        except ApiError as error:
            raise error.named(self._names) from error

    async def whole(self) -> Json:
        """The answer at once."""
        try:
            return await self._answer.whole(self._generation)
        except ApiError as error:
            raise error.named(self._names) from error

    async def events(self) -> AsyncIterator[Json]:
        """The answer as it comes."""
        try:
            async for event in self._answer.events(self._generation):
                yield event
        except ApiError as error:
            raise error.named(self._names) from error

    def fail(self, failure: Failure) -> None:
        """End it early, from the same thread: whoever waits for it hears why."""
        self._generation.fail(failure)

    def close(self) -> None:
        """Free everything everywhere. Idempotent."""
        self._generation.close()


class Desk:
    """Where requests are looked at. `draw` gives the seed of a request that brings none."""

    def __init__(
        self,
        config: FrontConfig,
        door: Door,
        tokenizer: Tokenizer,
        draw: Callable[[], int] = lambda: secrets.randbits(64),
    ) -> None:
        self.config = config
        self.keys = Keys.of(config, time.monotonic)
        self._door = door
        self._tokenizer = tokenizer
        self._draw = draw
        self._started = int(time.time())

    @property
    def status(self) -> Status:
        return self._door.status()

    def read(self, kind: type[RequestT], raw: Mapping[str, Any]) -> RequestT:
        """Plain data as a request; an ApiError names the parameter at fault."""
        return checked(kind, raw, self.status.context)

    async def chat(self, request: ChatRequest, gone: Gone | None = None) -> Order:
        """A conversation to be answered; `gone` waits until nobody wants the answer any more."""
        status = self._open(request)
        try:
            prompt = await self._tokenizer.chat(request.messages, context=status.context)
        except ValueError as error:
            raise ApiError(400, str(error), "messages", TOO_LONG) from error
        return self._order(CHAT, request, [prompt], status, gone)

    async def complete(
        self, request: CompletionRequest, gone: Gone | None = None, kind: Kind = COMPLETION
    ) -> Order:
        """Texts to be continued, answered in the words of `kind`."""
        status = self._open(request)
        if len(request.prompt) * (request.n or 1) > MOST_CHOICES:
            raise ApiError(
                400, f"prompts times n is more than {MOST_CHOICES}", "n", "invalid_value"
            )
        try:
            prompts = [await self._prompt(each, status.context) for each in request.prompt]
        except ValueError as error:
            raise ApiError(400, str(error), "prompt", TOO_LONG) from error
        return self._order(kind, request, prompts, status, gone)

    def card(self) -> Json:
        """The model, as `/v1/models` tells of it."""
        return {
            "id": self.config.name,
            "object": "model",
            "created": self._started,
            "owned_by": "draftmesh",
            "max_model_len": self.status.context or None,
        }

    def info(self) -> Json:
        """The service, as `/server_info` tells of it."""
        return server_info(self.config, self.status, time.time())

    def check_model(self, name: str | None) -> None:
        """An ApiError if that model is not served."""
        if name is not None and name != self.config.name:
            text = f"there is no model {name!r}, only {self.config.name!r}"
            raise ApiError(404, text, "model", "model_not_found")

    def _open(self, request: Request) -> Status:
        """Whether a request would find anybody."""
        self.check_model(request.model)
        status = self.status
        if not status.ready:
            text = "the service is draining" if status.draining else "no verifier is there"
            raise ApiError(503, text, code="draining" if status.draining else "no_verifier")
        return status

    async def _prompt(self, prompt: str | Sequence[int], context: int) -> Prompt:
        if isinstance(prompt, str):
            return await self._tokenizer.encode(prompt, context=context)
        return Prompt(tuple(prompt))

    def _order(
        self,
        kind: Kind,
        request: Request,
        prompts: Sequence[Prompt],
        status: Status,
        gone: Gone | None,
    ) -> Order:
        number = uuid.uuid4().hex
        queries = self._queries(kind, request, prompts, status, kind.prefix + number)
        about = About(
            model=self.config.name,
            number=number,
            created=int(time.time()),
            level=self.config.per_request_spec_decode_metrics,
            draft_length=status.draft_length,
        )
        answer = Answer(kind, request, prompts, self._tokenizer, about)
        names = {"prompt": kind.prompt, "grammar": request.grammar[0]}
        return Order(Generation(self._door, queries, gone), answer, names)

    def _queries(
        self,
        kind: Kind,
        request: Request,
        prompts: Sequence[Prompt],
        status: Status,
        name: str,
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
                name=name,
            )
            for each in prompts
        ]
