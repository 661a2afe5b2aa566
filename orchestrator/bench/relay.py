"""A wire between two nodes, as long, as narrow and as broken as a measurement wants it: TCP through this process.

Bytes stay bytes and keep their order, as on a real wire: what is late delays what comes after it.
"""

import asyncio
import random
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

CHUNK: Final = 1 << 16
HOST: Final = "127.0.0.1"


@dataclass(slots=True)
class Wire:
    """What the wire is like from now on: seconds one way and at random more, bytes a second (0: any), cut or not."""

    delay: float = 0.0
    jitter: float = 0.0
    rate: float = 0.0
    cut: bool = False


class Relay:
    """Listens on a port of its own for `host:port`, in a thread of its own. `wire` may be changed at any time.

    While the wire is cut nothing passes, and nobody is told; `hang_up` ends the connections that there are.
    """

    def __init__(self, host: str, port: int, seed: int = 0) -> None:
        self.wire = Wire()
        self._target = (host, port)
        self._rng = random.Random(seed)  # noqa: S311  # no secret
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, HOST, 0, limit=CHUNK)
        )
        self.address = f"tcp://{HOST}:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.wire.cut:
            back.close()
            return
        try:
            far, forth = await asyncio.open_connection(*self._target, limit=CHUNK)
        except OSError:
            back.close()
            return
        self._writers |= {back, forth}
        with suppress(asyncio.CancelledError):  # whoever cancels ends the relay
            await asyncio.gather(self._pass(near, forth), self._pass(far, back))
        self._writers -= {back, forth}

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Read at once, say later: so a delay does not narrow the wire."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        saying = asyncio.create_task(self._say(waiting, sink))
        free_at = 0.0
        with suppress(ConnectionError):
            while data := await source.read(CHUNK):
                now, wire = self._loop.time(), self.wire
                free_at = max(now, free_at) + (len(data) / wire.rate if wire.rate else 0.0)
                await waiting.put((free_at + wire.delay + wire.jitter * self._rng.random(), data))
        await waiting.put((0.0, b""))
        await saying

    async def _say(
        self, waiting: "asyncio.Queue[tuple[float, bytes]]", sink: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while True:
                due, data = await waiting.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not data:
                    break
                if not self.wire.cut:
                    sink.write(data)
                    await sink.drain()
        sink.close()

    def hang_up(self) -> None:
        """Whoever is connected is cut off."""

        def close() -> None:
            for writer in self._writers:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(close)

    def close(self) -> None:
        """No connection and no thread is left."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    async def _end(self) -> None:
        self._server.close()
        passing = asyncio.all_tasks() - {asyncio.current_task()}
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
