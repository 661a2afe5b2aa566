"""Devices, and large memory that is read in scattered pieces, in huge pages where the system grants them.

Through pages of 4 KiB, copying scattered KV costs up to 2.5 times what it costs through pages of 2 MiB: finding out
where they are takes longer than reading them (`orchestrator bench kv`).
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor, dtype

HUGE: Final = 2 << 20


def zeros(size: int) -> NDArray[np.uint8]:
    """So many zeros; they take memory when they are first written."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux has it
    if advice is None or size < HUGE:
        return np.zeros(size, np.uint8)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system that knows no huge pages
        memory.madvise(advice)
    return np.frombuffer(memory, np.uint8)


def pool(shape: Sequence[int], kind: "dtype", device: str) -> "Tensor":
    """Zeros on a device."""
    import torch  # noqa: PLC0415

    size = prod(shape) * kind.itemsize
    there = (
        torch.from_numpy(zeros(size))
        if device == "cpu"
        else torch.zeros(size, dtype=torch.uint8, device=device)
    )
    return there.view(kind).view(tuple(shape))


def present(device: str) -> None:
    """An EngineError where there is no such device."""
    import torch  # noqa: PLC0415

    name, _, number = device.partition(":")
    if name not in {"cpu", "cuda"} or (number and not (name == "cuda" and number.isdecimal())):
        raise EngineError(f"device {device} is not served, only cpu, cuda and cuda:N")
    if name == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise EngineError(f"device {device} is not there: {_found(torch.cuda.device_count())}")


def claim(device: str, share: float) -> None:
    """Compute there, with at most so much of a GPU's memory; an EngineError where there is no such device.

    Streams, events and kernels are those of the current device, whichever tensors they are about.
    """
    import torch  # noqa: PLC0415

    present(device)
    if device != "cpu":
        index = torch.device(device).index or 0
        torch.cuda.set_device(index)
        torch.cuda.set_per_process_memory_fraction(share, index)


def _found(count: int) -> str:
    return f"there are {count} CUDA devices" if count != 1 else "there is one CUDA device"
