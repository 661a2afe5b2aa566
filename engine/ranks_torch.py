"""Ranks that are processes, over torch.distributed: gloo between CPUs, NCCL between GPUs.

Shapes: T tokens, H hidden, N positions whose logits are wanted, V vocabulary, W words in bytes.
"""

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from engine.errors import EngineError
from engine.ranks import Shard

GATHERING: Final = timedelta(hours=1)
"""How long ranks wait for each other before the first forward: until all have fetched and read the model."""
IDLE: Final = timedelta(days=3650)
"""How long another rank than 0 waits for the next forward. That rank 0 is gone, it hears from the connection."""
AGAIN: Final = 0.2
"""Seconds between two tries to reach rank 0 before it is there."""
HEAD: Final = 4096
"""Bytes of words that are told in one go; longer ones (prompts) take two."""
LENGTH: Final = 8
"""Bytes in front of them that say how many there are."""


class TorchRanks:
    """See `engine.ranks.Words`. One for a process.

    `broken`: something failed between ranks, and it is of no use to say more.
    """

    def __init__(self, shard: Shard, store: Any, device: str, patience: float) -> None:  # noqa: ANN401
        self.shard = shard
        self.broken = False
        self._store = store
        self._met = 0
        self.meet()
        where = torch.device(device)
        kind = where.type
        if kind != "cpu":
            torch.cuda.set_device(where.index or 0)
            os.environ["LOCAL_RANK"] = str(where.index or 0)  # transformers looks there
        dist.init_process_group(
            "gloo" if kind == "cpu" else f"cpu:gloo,{kind}:nccl",
            store=store,
            rank=shard.rank,
            world_size=shard.ranks,
            timeout=timedelta(seconds=patience),
        )
        # Rank 0 tells of a forward when the others have nothing else to do: one that does not listen is frozen.
        longest = IDLE if shard.rank else timedelta(seconds=patience)
        self._words = dist.new_group(backend="gloo", timeout=longest)

    @classmethod
    def lead(
        cls, ranks: int, listening: socket.socket, device: str, patience: float
    ) -> "TorchRanks":
        """Be rank 0, whom the others find at a socket that listens; it is used up."""
        _stay_home(listening.getsockname()[0])
        host, port = listening.getsockname()[:2]
        store = _store(host, port, leads=True, listening=listening.detach())
        return cls(Shard(0, ranks), store, device, patience)

    @classmethod
    def join(
        cls, shard: Shard, address: tuple[str, int], device: str, patience: float
    ) -> "TorchRanks":
        """Be another rank; an EngineError if rank 0 cannot be reached in time."""
        _reach(address, GATHERING.total_seconds())
        _stay_home(address[0])
        store = _store(*address, leads=False)
        return cls(shard, store, device, patience)

    def meet(self) -> None:
        """See `engine.ranks.Ranks`."""
        self._met += 1
        if self.shard.rank:
            self._store.set(f"here-{self._met}-{self.shard.rank}", "")
            self._store.get(f"all-here-{self._met}")
            return
        for rank in range(1, self.shard.ranks):
            self._store.get(f"here-{self._met}-{rank}")
        self._store.set(f"all-here-{self._met}", "")

    def agree(self, text: str) -> None:
        """Say what this rank has loaded; on rank 0, an EngineError that names one that has something else."""
        if self.shard.rank:
            self._store.set(f"loaded-{self.shard.rank}", text)
            return
        for rank in range(1, self.shard.ranks):
            other = self._store.get(f"loaded-{rank}").decode()
            if other != text:
                raise EngineError(f"rank {rank} has {other}, rank 0 has {text}")

    def sum(self, part_TH: Tensor) -> Tensor:
        """See `engine.ranks.Ranks`."""
        with self._together():
            dist.all_reduce(part_TH)
        return part_TH

    def gather(self, part_NV: Tensor, size: int) -> Tensor:
        """See `engine.ranks.Ranks`."""
        if not len(part_NV):
            return part_NV.new_empty(0, size)
        widths = [_width(Shard(rank, self.shard.ranks), size) for rank in range(self.shard.ranks)]
        widest = max(widths)
        even_NV = pad(part_NV, (0, widest - part_NV.shape[1])).contiguous()
        if self.shard.rank:
            with self._together():
                dist.gather(even_NV)
            return part_NV
        parts = [torch.empty_like(even_NV) for _ in widths]
        with self._together():
            dist.gather(even_NV, parts)
        return _beside(parts, widths)

    def tell(self, words: bytes) -> None:
        """See `engine.ranks.Words`."""
        said = len(words).to_bytes(LENGTH, "little") + words
        head = said[:HEAD].ljust(HEAD, b"\0")
        self._broadcast(torch.frombuffer(bytearray(head), dtype=torch.uint8))
        if rest := said[HEAD:]:
            self._broadcast(torch.frombuffer(bytearray(rest), dtype=torch.uint8))

    def hear(self) -> bytes:
        """See `engine.ranks.Words`."""
        head_W = torch.empty(HEAD, dtype=torch.uint8)
        self._broadcast(head_W)
        said = head_W.numpy().tobytes()
        size = LENGTH + int.from_bytes(said[:LENGTH], "little")
        if size > HEAD:
            rest_W = torch.empty(size - HEAD, dtype=torch.uint8)
            self._broadcast(rest_W)
            said += rest_W.numpy().tobytes()
        return said[LENGTH:size]

    def close(self) -> None:
        """No rank speaks any more."""
        with suppress(RuntimeError):  # the others may be gone
            dist.destroy_process_group()

    def _broadcast(self, words_W: Tensor) -> None:
        with self._together():
            dist.broadcast(words_W, 0, group=self._words)

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError:
            self.broken = True
            raise


def _store(host: str, port: int, *, leads: bool, listening: int | None = None) -> Any:  # noqa: ANN401
    """Where ranks find each other; rank 0 keeps it, behind a socket that listens already."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        host,
        port,
        is_master=leads,
        timeout=GATHERING,
        wait_for_workers=False,
        master_listen_fd=listening,
    )


def _width(shard: Shard, size: int) -> int:
    part = shard.of(size)
    return int(part.stop - part.start)


def _beside(parts: Sequence[Tensor], widths: Sequence[int]) -> Tensor:
    return torch.cat([part[:, :width] for part, width in zip(parts, widths, strict=True)], dim=-1)


def _reach(address: tuple[str, int], seconds: float) -> None:
    """Wait until somebody listens there: the name of rank 0's host may not be known yet."""
    deadline, pause = monotonic() + seconds, threading.Event()
    while True:
        try:
            socket.create_connection(address, timeout=10).close()
        except OSError as error:
            if monotonic() > deadline:
                where = f"{address[0]}:{address[1]}"
                raise EngineError(f"rank 0 cannot be reached at {where}: {error}") from error
            pause.wait(AGAIN)
        else:
            return


def _stay_home(address: str) -> None:
    """Ranks of one machine speak over its loopback alone, where gloo would take the address of its name."""
    if address.startswith("127.") or address in {"::1", "localhost"}:
        names = [name for _, name in socket.if_nameindex() if name in {"lo", "lo0"}]
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, names[0] if names else "lo")
