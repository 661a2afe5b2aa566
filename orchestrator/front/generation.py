"""The answer to one request while it comes: the replies to all of its prompts, until the client leaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from orchestrator.front.errors import ApiError
from orchestrator.front.messages import Failure, Query, Reply, Status
from protocol.messages import Done, Emit


class Door(Protocol):
    """The mesh side as the HTTP side sees it."""

    def submit(self, query: Query, listener: Callable[[Reply], None]) -> int:
        """Ask; `listener` hears every reply in this thread. The ticket is for `abort`."""

    def abort(self, ticket: int) -> None:
        """Nobody listens any more."""

    def status(self) -> Status:
        """How it is."""


Gone = Callable[[], Awaitable[None]]
"""Waits until the client has closed its connection."""


class ClientGoneError(Exception):
    """The client closed its connection."""


class News(NamedTuple):
    """A reply, and the index of its choice among all choices of the request."""

    choice: int
    prompt: int
    reply: Emit | Done


class Generation:
    """Begun by `start`; whoever starts it must `close` it, which frees everything everywhere.

    Without `gone` whoever reads it is cancelled when the client leaves.
    """

    def __init__(self, door: Door, queries: Sequence[Query], gone: Gone | None = None) -> None:
        self._door = door
        self._queries = queries
        self._gone = gone
        self._inbox: asyncio.Queue[tuple[int, Reply | None]] = asyncio.Queue()
        self._tickets: list[int] = []
        self._left = sum(query.choices for query in queries)
        self._first: News | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask, and wait for the first word; what was refused until then is an ApiError."""
        if self._gone is not None:
            self._watch = asyncio.create_task(self._watch_client(self._gone))
        for number, query in enumerate(self._queries):
            self._tickets.append(self._door.submit(query, self._listener(number)))
        self._first = await self._next()

    async def news(self) -> AsyncIterator[News]:
        """Everything in order, to the last `Done`; an ApiError ends it early."""
        while self._first is not None:
            yield self._first
            self._left -= isinstance(self._first.reply, Done)
            self._first = await self._next() if self._left else None

    def fail(self, failure: Failure) -> None:
        """Whoever reads hears this next but for what is here already; from the thread of the reader."""
        self._inbox.put_nowait((0, failure))

    def close(self) -> None:
        """Stop listening; what is not finished is aborted. Idempotent."""
        if self._watch is not None:
            self._watch.cancel()
        if self._left:
            self._left = 0
            for ticket in self._tickets:
                self._door.abort(ticket)

    def _listener(self, number: int) -> Callable[[Reply], None]:
        return lambda reply: self._inbox.put_nowait((number, reply))

    async def _next(self) -> News:
        number, reply = await self._inbox.get()
        match reply:
            case None:
                raise ClientGoneError
            case Failure():
                raise ApiError.of(reply)
            case Done(reason="abort"):
                raise ApiError(503, reply.detail or "the verifier gave up", code="abort")
            case Done(reason="error"):
                raise ApiError(400, reply.detail, code="cannot_continue")
        before = sum(query.choices for query in self._queries[:number])
        return News(before + reply.choice, number, reply)

    async def _watch_client(self, gone: Gone) -> None:
        await gone()
        self._inbox.put_nowait((0, None))
