"""Numbers on their way from a device to the host, which does other things meanwhile.

A copy into pinned memory is queued behind what computes the numbers; a thread waits for it, without Python's lock, and
wakes whoever sleeps.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor


class Arrival(Protocol):
    """Numbers that were asked for."""

    def ready(self) -> bool:
        """Whether `numbers` would not wait."""

    def numbers(self) -> npt.NDArray[Any]:
        """All of them, waited for if need be."""


Fetch = Callable[[Tensor, Callable[[], None]], Arrival]
"""(numbers, wake) -> their arrival; `wake` is called, from any thread, when such as were not ready are."""


def fetcher(device: str) -> Fetch:
    """What fetches from a device; on the CPU everything is here already."""
    return here if device == "cpu" else QueuedFetch(pinned)


@dataclass(frozen=True, slots=True)
class _Here:
    tensor: Tensor

    def ready(self) -> bool:
        return True

    def numbers(self) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self.tensor.numpy()
        return found


def here(tensor: Tensor, _wake: Callable[[], None]) -> Arrival:
    """Of the CPU's own memory."""
    return _Here(tensor)


@dataclass(frozen=True, slots=True)
class _Coming:
    host: Tensor
    copied: "Future[object]"

    def ready(self) -> bool:
        return self.copied.done()

    def numbers(self) -> npt.NDArray[Any]:
        self.copied.result()  # what went wrong on the device is raised here
        found: npt.NDArray[Any] = self.host.numpy()
        return found


Copy = Callable[[Tensor], tuple[Tensor, Callable[[], object]]]
"""Begins a copy: where it goes, and what waits until it is there."""


class QueuedFetch:
    """See `Fetch`; a thread waits for one copy after the other."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._waiting = ThreadPoolExecutor(1, "fetch")

    def __call__(self, tensor: Tensor, wake: Callable[[], None]) -> Arrival:
        host, wait = self._copy(tensor)
        copied = self._waiting.submit(wait)
        copied.add_done_callback(lambda _copied: wake())
        return _Coming(host, copied)


def pinned(tensor: Tensor) -> tuple[Tensor, Callable[[], object]]:
    """From a CUDA device into pinned memory, behind all that was launched there."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    kind: Any = torch.cuda.Event  # which is untyped
    event = kind(blocking=True)
    event.record(torch.cuda.current_stream(tensor.device))
    return host, event.synchronize
