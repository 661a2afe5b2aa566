"""Forwards that were captured once for each bucket of tokens and are replayed: one launch instead of hundreds.

A graph reads its tokens, their places and who sees whom from buffers that stay where they are. So any rows of a bucket
run through the same graph, and another draft length is another graph: choosing it costs nothing.

Shapes: T tokens of a bucket, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from engine.attention import Reached
from engine.attention_triton import Scratch, TritonAttention
from engine.batch import Batch, Row, numbers
from engine.buckets import Buckets
from engine.errors import EngineError
from engine.ragged import Room, deal, splits_of
from engine.runner import Engine, Forward
from engine.upload import there

Replay = Callable[[], None]


class Recorder(Protocol):
    """What captures launches."""

    def record(self, run: Callable[[], None]) -> Replay:
        """Run it, and return what does the same again with whatever is in its buffers by then."""

    @property
    def held(self) -> int:
        """Bytes of the device that this process has taken so far."""


class CudaRecorder:
    """CUDA graphs that share one pool of memory: one is replayed at a time."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    @property
    def held(self) -> int:
        return torch.cuda.memory_reserved(self._device)

    def record(self, run: Callable[[], None]) -> Replay:
        stream: Any = torch.cuda.Stream  # which is untyped
        aside = stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # what libraries set up at a first call cannot be captured
            run()
            run()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            run()
        replay: Replay = graph.replay
        return replay


@dataclass(frozen=True, slots=True)
class _Captured:
    """One bucket: how much there is place for in its part of the buffers, and what computes it."""

    room: Room
    replay: Replay


class GraphedEngine:
    """The same forwards as `Engine.forward`. Those that fit a bucket are replayed; `replayed` counts them.

    The logits that it returns are overwritten by its next forward. What asks for hidden states, holds a tree, or wants
    the logits of few of its tokens (a chunk of a prompt) is computed as it comes.
    """

    def __init__(self, engine: Engine, buckets: Buckets, rows: int, recorder: Recorder) -> None:
        if not isinstance(engine.attention, TritonAttention) or not engine.config.spare:
            raise EngineError("graphs need attention triton, and a spare page for what pads them")
        config = engine.config
        self.engine = engine
        self.buckets = buckets
        self.replayed = 0
        self._attention = engine.attention
        self._recorder = recorder
        self._rows = rows
        self._captured: dict[int, _Captured] = {}
        self._spare = config.pages * config.page_size
        self._pages = -(-config.max_context // config.page_size)
        self._splits = splits_of(config.max_context)
        whole = self._room(buckets.largest)
        on = config.device
        self._numbers_I = torch.zeros(whole.size, dtype=torch.int32, device=on)
        self._tokens_3T = torch.zeros(3, buckets.largest, dtype=torch.int64, device=on)
        self._logits_TV = torch.zeros(buckets.largest, engine.model.vocab, device=on)
        self._scratch = Scratch.make(whole.parts, self._splits, self._attention.heads, on)

    @torch.no_grad()
    def capture(self, progress: Callable[[int, int], None] = lambda _done, _all: None) -> None:
        """Record every bucket, the largest first: the others find room in its memory."""
        sizes = self.buckets.sizes[::-1]
        for done, size in enumerate(sizes):
            progress(done, len(sizes))
            self._captured[size] = self._record(size)
        progress(len(sizes), len(sizes))

    @torch.no_grad()
    def forward(
        self, rows: Sequence[Row], hidden: Sequence[int] = (), reached: Reached | None = None
    ) -> Forward:
        """See `engine.runner.Engine.forward`."""
        tokens = sum(len(row.tokens) for row in rows)
        wanted = sum(row.logits for row in rows)
        size = self.buckets.of(tokens)
        odd = hidden or not 0 < len(rows) <= self._rows or any(row.seen is not None for row in rows)
        if size not in self._captured or odd or reached or 2 * wanted < tokens:
            return self.engine.forward(rows, hidden, reached)
        self.engine.check(rows)
        captured = self._captured[size]
        places = self._fill(rows, captured.room)
        captured.replay()
        self.replayed += 1
        logits_NV = self._logits_TV[:tokens]
        if wanted < tokens:
            places_N = there(torch.tensor(places), logits_NV.device)
            logits_NV = logits_NV.index_select(0, places_N)
        return Forward(logits_NV, {})

    def _room(self, size: int) -> Room:
        """For any rows of so many tokens, down to one token each."""
        tile = self._attention.shape(size).tile
        return Room(size, size, min(size, self._rows), self._pages, size, tile)

    def _record(self, size: int) -> _Captured:
        room = self._room(size)
        self._fill([], room)
        ids_T, positions_T, slots_T = self._tokens_3T[:, :size]
        everything_T = torch.arange(size, device=ids_T.device)
        batch = Batch(ids_T, positions_T, slots_T, everything_T)
        attend = self._attention.over(
            self._attention.shape(size), room, self._splits, self._numbers_I, scratch=self._scratch
        )

        def run() -> None:
            self._logits_TV[:size].copy_(self.engine.compute(batch, attend).logits_NV)

        return _Captured(room, self._recorder.record(run))

    def _fill(self, rows: Sequence[Row], room: Room) -> list[int]:
        """Put these rows into the buffers, and padding behind them: places of the wanted logits."""
        pinned = self._numbers_I.device.type != "cpu"
        numbers_I = torch.empty(room.size, dtype=torch.int32, pin_memory=pinned)
        deal(rows, room, self.engine.config.page_size, into=numbers_I.numpy())
        ids, positions, slots, wanted = numbers(rows, self.engine.config.page_size)
        missing = room.tokens - len(ids)
        padded = ([*ids, *[0] * missing], [*positions, *[0] * missing])
        tokens_3T = torch.tensor([*padded, [*slots, *[self._spare] * missing]])
        if pinned:
            tokens_3T = tokens_3T.pin_memory()
        self._numbers_I[: room.size].copy_(numbers_I, non_blocking=True)
        self._tokens_3T[:, : room.tokens].copy_(tokens_3T, non_blocking=True)
        return wanted
