"""What `draftmesh.v1.Inference` does: every call goes to the desk where HTTP's requests go."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import grpc

from orchestrator.front.desk import Desk, Order
from orchestrator.front.errors import ApiError
from orchestrator.front.keys import unknown
from orchestrator.front.kinds import CALL
from orchestrator.front.messages import Failure
from orchestrator.front.metering import Meter
from orchestrator.front.rpc.errors import refuse
from orchestrator.front.rpc.reading import parameters
from orchestrator.front.rpc.writing import message, model_info, server_info
from orchestrator.front.schema import CallRequest
from orchestrator.front.stories import Story
from orchestrator.rpc.draftmesh_pb2 import (
    AbortRequest,
    AbortResponse,
    GenerateRequest,
    GetModelInfoRequest,
    GetModelInfoResponse,
    GetServerInfoRequest,
    GetServerInfoResponse,
)

ABORTED: Final = Failure(499, "aborted by the caller", code="aborted")

Headers = Mapping[str, str]


@asynccontextmanager
async def untold(_peer: str, _headers: Headers) -> AsyncIterator[None]:
    """Nobody traces."""
    yield


class Inference:
    """A call that is cancelled, or whose deadline is over, frees what it holds: whoever waits in it is cancelled."""

    def __init__(self, desk: Desk, story: Story = untold) -> None:
        self._desk = desk
        self._story = story
        self._running: dict[tuple[int, str], Order] = {}

    async def Generate(  # noqa: N802  # as the service has it
        self, request: GenerateRequest, context: grpc.aio.ServicerContext
    ) -> None:
        """Write the pieces of an answer as they come."""
        headers = metadata(context)
        try:
            caller = self._caller(headers)
            with self._desk.keys.metered(caller):
                async with self._story(context.peer(), headers):
                    await self._generate(request, context, caller)
        except ApiError as error:
            await refuse(context, error)

    async def Abort(  # noqa: N802
        self, request: AbortRequest, context: grpc.aio.ServicerContext
    ) -> AbortResponse:
        """End requests of the same key."""
        caller = id(self._caller(metadata(context)))
        found = [each for each in request.ids if (caller, each) in self._running]
        for each in found:
            self._running[caller, each].fail(ABORTED)
        return AbortResponse(aborted=found)

    async def GetModelInfo(  # noqa: N802
        self, _request: GetModelInfoRequest, _context: grpc.aio.ServicerContext
    ) -> GetModelInfoResponse:
        return model_info(self._desk.card(), self._desk.info())

    async def GetServerInfo(  # noqa: N802
        self, _request: GetServerInfoRequest, _context: grpc.aio.ServicerContext
    ) -> GetServerInfoResponse:
        info = self._desk.info()
        return server_info(info, json.dumps(info, ensure_ascii=False))

    async def _generate(
        self, request: GenerateRequest, context: grpc.aio.ServicerContext, caller: Meter
    ) -> None:
        checked = self._desk.read(CallRequest, parameters(request))
        order = await self._desk.complete(checked, kind=CALL)
        names = [(id(caller), each) for each in (order.number, request.request_id) if each]
        if any(name in self._running for name in names):
            text = f"a request {request.request_id!r} runs already"
            raise ApiError(409, text, "request_id", "already_exists")
        self._running |= dict.fromkeys(names, order)
        try:
            await order.start()
            async for event in order.events():
                await context.write(message(event))
        finally:
            order.close()
            for name in names:
                del self._running[name]

    def _caller(self, headers: Headers) -> Meter:
        """Whose call it is; the door has let it in already."""
        meter = self._desk.keys.meter(headers.get("authorization", "").encode())
        if meter is None:
            raise unknown()
        return meter


def metadata(context: grpc.aio.ServicerContext) -> Headers:
    """What is text of it."""
    return {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
