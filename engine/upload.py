"""Numbers to a device without waiting for what it computes, many small arrays in one copy or one tensor; and back.

Shapes: B bytes of all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

ALIGNED: Final = 16
"""Bytes at which each array begins: the widest load of a kernel."""


def upload(arrays: Mapping[str, npt.NDArray[Any]], device: str) -> dict[str, Tensor]:
    """The same arrays as tensors; they share one block of memory, through pinned memory where that is a device's."""
    ends: dict[str, tuple[int, int]] = {}
    size = 0
    for name, array in arrays.items():
        begin = -(-size // ALIGNED) * ALIGNED
        size = begin + array.nbytes
        ends[name] = begin, size
    block_B = torch.empty(max(size, 1), dtype=torch.uint8, pin_memory=device != "cpu")
    host_B = block_B.numpy()
    for name, array in arrays.items():
        begin, end = ends[name]
        host_B[begin:end] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    there_B = block_B.to(device, non_blocking=True)
    return {
        name: there_B[slice(*ends[name])].view(_kind(array)).view(array.shape)
        for name, array in arrays.items()
    }


def download(tensors: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
    """The same tensors of one device as arrays; the host waits once, for all of them."""
    if not tensors:
        return []
    flat = [each.contiguous().view(-1).view(torch.uint8) for each in tensors]
    parts = np.split(torch.cat(flat).cpu().numpy(), np.cumsum([len(each) for each in flat])[:-1])
    return [
        part.copy().view(_numbers(each.dtype)).reshape(tuple(each.shape))
        for part, each in zip(parts, tensors, strict=True)
    ]


def there(tensor: Tensor, device: torch.device | str) -> Tensor:
    """One tensor of the host, which nobody may change afterwards."""
    if torch.device(device).type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def _kind(array: npt.NDArray[Any]) -> torch.dtype:
    kind: torch.dtype = torch.from_numpy(np.zeros(1, array.dtype)).dtype
    return kind


def _numbers(kind: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=kind).numpy().dtype
