"""Where a small model computes, and the ways between there and the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy.typing as npt
import torch
from torch import Tensor

from engine.upload import download, upload


@dataclass(frozen=True, slots=True)
class Device:
    """`name` is cpu, cuda or cuda:N; with `kernels`, Triton's compute what they can."""

    name: str = "cpu"
    kernels: bool = False

    @classmethod
    def of(cls, name: str) -> Self:
        """With kernels unless it is the CPU."""
        return cls(name, kernels=name != "cpu")

    @property
    def attention(self) -> str:
        """The backend that goes with it."""
        return "triton" if self.kernels else "auto"

    def up(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
        """Arrays as tensors there, in one copy, for which the host does not wait; on the CPU, in none."""
        if self.name == "cpu":
            return {name: torch.from_numpy(_own(array)) for name, array in arrays.items()}
        return upload(arrays, self.name)

    def down(self, tensors: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
        """Tensors as arrays here, in one copy, for which the host waits; from the CPU, in none."""
        if self.name == "cpu":
            return [each.numpy() for each in tensors]
        return download(tensors)


def _own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One that may be written to."""
    return array if array.flags.writeable else array.copy()


CPU: Final = Device()
