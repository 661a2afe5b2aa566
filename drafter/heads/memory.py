"""What a drafter remembers of each mirror for a head: pages of draft KV, and rows that are not in them yet.

A context begins at `origin`, which is where the first row that came belongs: any begin will do. Positions are those of
prompt and output; in the pages, and for the attention's mask, they count from `origin`.

Shapes: T tokens of all rows, F width of a row that travelled, P pages, S positions of a page, K key heads, D head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from drafter.heads.layer import Place
from drafter.heads.tails import length, text
from drafter.mirror import Mirror
from engine.attention import Backend, backend
from engine.batch import Row, numbers
from engine.config import EngineConfig
from engine.device import CPU, Device
from engine.models.config import ModelConfig
from engine.pages import OutOfPages, PagedSequence, PagePool
from engine.rotary import tables
from protocol.errors import PeerError
from protocol.tensor import Tensor as Sent


@dataclass(slots=True, eq=False)
class Context:
    """Positions before `true` are in the pages, made from rows of the target; `rows` are those from there to `end`."""

    sequence: PagedSequence
    origin: int = 0
    true: int = 0
    rows: list[Tensor] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The position after the last row that is known."""
        return self.true + sum(map(len, self.rows))

    def take(self, start: int, rows_NF: Tensor) -> bool:
        """Rows of positions `start`...; False: there is a hole before them, and the context begins anew with them."""
        end = self.end
        whole = start <= end
        if not whole:
            self.rows.clear()
            self.origin = self.true = end = start
        if len(rows_NF) > end - start:
            self.rows.append(rows_NF[end - start :])
        return whole

    def used(self, count: int) -> None:
        """The first `count` rows are in the pages now."""
        self.true += count
        while count:
            first = self.rows.pop(0)
            if len(first) > count:
                self.rows.insert(0, first[count:])
                return
            count -= len(first)

    def first(self, count: int) -> list[Tensor]:
        """Its next `count` rows, in pieces."""
        pieces: list[Tensor] = []
        for piece in self.rows:
            if count <= 0:
                break
            pieces.append(piece[:count])
            count -= len(pieces[-1])
        return pieces


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of one mirror at positions `start`..., for one forward; where it `draws`, the last of them is wanted."""

    context: Context
    tokens: Sequence[int]
    start: int
    draws: bool = False


class Memory:
    """The pages of all mirrors, on a device; `width` and `rows_dtype` are the form of the rows that it takes."""

    def __init__(
        self,
        shape: ModelConfig,
        config: EngineConfig,
        width: int,
        rows_dtype: str,
        *,
        device: Device = CPU,
        attention: Backend | None = None,
    ) -> None:
        self.context = config.max_context
        self.contexts: dict[Mirror, Context] = {}
        self.pool = PagePool(config.pages, config.page_size)
        self._width = width
        self._rows_dtype = rows_dtype
        self.dtype: torch.dtype = getattr(torch, config.dtype)
        self._page_size = config.page_size
        pages = (config.pages, config.page_size, 2, shape.kv_heads, shape.head_dim)
        self.kv = tuple(
            torch.zeros(pages, dtype=self.dtype, device=device.name) for _ in range(shape.layers)
        )
        self._attention = attention or backend(config.attention, device.name)(shape, config)
        cos_S1D, sin_S1D = tables(shape, config.max_context, self.dtype)
        self._cos_S1D, self._sin_S1D = cos_S1D.to(device.name), sin_S1D.to(device.name)
        self.device = device

    # --- mirrors ------------------------------------------------------------------------------------

    def open(self, mirror: Mirror, tokens: Sequence[int], label: str) -> None:
        """Pages that hold the KV of the same tokens are shared: their rows need not come again."""
        sequence = self.pool.open(tokens, label)
        self.contexts[mirror] = Context(sequence, true=sequence.computed)

    def close(self, mirror: Mirror) -> None:
        if context := self.contexts.pop(mirror, None):
            self.pool.release(context.sequence)

    def receive(self, mirror: Mirror, start: int, rows: Sent) -> None:
        """Rows as they travelled; a PeerError says why they cannot be."""
        end = start + (rows.shape[0] if rows.shape else 0)
        if rows.dtype != self._rows_dtype or rows.shape[1:] != (self._width,):
            wanted = f"{self._rows_dtype}[n, {self._width}]"
            raise PeerError(f"hidden rows are {rows.dtype}{list(rows.shape)}, not {wanted}")
        if end > length(mirror):
            raise PeerError(f"hidden rows end at {end}, the text at {length(mirror)}")
        sent = self.device.up({"rows": np.frombuffer(rows.data, np.uint8)})["rows"]
        rows_NF = sent.view(getattr(torch, rows.dtype)).view(rows.shape)
        context = self.contexts[mirror]
        if not context.take(start, rows_NF.to(self.dtype)):
            self.pool.release(context.sequence)

    def reserve(self, context: Context, end: int) -> bool:
        """Pages for positions before `end`; without them, the context begins anew with the next rows."""
        try:
            self.pool.reserve(context.sequence, end - context.origin)
        except OutOfPages:
            self.forget(context)
            return False
        return True

    def forget(self, context: Context) -> None:
        """Give its pages back: what comes next is a begin."""
        end = context.end
        self.pool.release(context.sequence)
        context.rows.clear()
        context.origin = context.true = end

    def back(self, context: Context, position: int) -> None:
        """What was computed from this position on was a guess."""
        self.pool.truncate(context.sequence, max(0, position - context.origin))

    def publish(self, mirror: Mirror, shift: int) -> None:
        """Let others share its full pages, where row t is of token t + `shift` and all rows were the target's.

        A context that begins in the middle is like no other.
        """
        context = self.contexts[mirror]
        full = context.sequence.computed // self._page_size
        if context.origin == 0 and full > len(context.sequence.chain):
            self.pool.publish(context.sequence, text(mirror, shift))

    def reset(self) -> None:
        self.pool.clear_cache()

    # --- forwards -----------------------------------------------------------------------------------

    def place(self, spans: Sequence[Span], *, causal: bool = True) -> tuple[Tensor, Place]:
        """Ids and places of all tokens of these spans."""
        rows = [
            Row(
                span.tokens,
                span.start - span.context.origin,
                span.context.sequence.pages,
                int(span.draws),
            )
            for span in spans
        ]
        ids, positions, slots, wanted = (
            np.array(each, np.int64) for each in numbers(rows, self._page_size)
        )
        if any(span.context.origin for span in spans):
            counts = [len(span.tokens) for span in spans]
            positions += np.repeat([span.context.origin for span in spans], counts)
        on = self.device.up({"ids": ids, "positions": positions, "slots": slots, "wanted": wanted})
        place = Place(
            self._cos_S1D.index_select(0, on["positions"]),
            self._sin_S1D.index_select(0, on["positions"]),
            on["slots"],
            self._attention.prepare(rows, causal=causal),
            on["wanted"],
        )
        return on["ids"], place
