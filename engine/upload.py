"""Numbers to a device, without waiting for what it computes: many small arrays in one copy, or a tensor.

Shapes: B bytes of all of them.
"""

from collections.abc import Mapping
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


def there(tensor: Tensor, device: torch.device | str) -> Tensor:
    """One tensor of the host, which nobody may change afterwards."""
    if torch.device(device).type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def _kind(array: npt.NDArray[Any]) -> torch.dtype:
    kind: torch.dtype = torch.from_numpy(np.zeros(1, array.dtype)).dtype
    return kind
