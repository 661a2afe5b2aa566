"""The tensors of a head, and those that it shares with its target."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import safe_open
from torch import Tensor

from drafter.checkpoints import CheckpointError, Head, places
from engine.device import CPU, Device
from engine.features import Projection, tensor


class HeadWeights:
    """An open checkpoint, by the names that are the same in all dialects. Tensors come in one dtype, on one device."""

    def __init__(self, head: Head, dtype: torch.dtype, device: Device = CPU) -> None:
        self.head = head
        self.dtype = dtype
        self.device = device
        self._files: dict[str, Any] = {}
        with ExitStack() as stack:
            for path in sorted(head.folder.glob("*.safetensors")):
                file = stack.enter_context(safe_open(path, framework="pt"))
                self._files.update(dict.fromkeys(file.keys(), file))
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __contains__(self, name: str) -> bool:
        return name in self.head.names

    def raw(self, name: str) -> Tensor:
        """As it is stored, on the host."""
        place = self.head.names[name]
        found: Tensor = self._files[place].get_tensor(place)
        return found

    def read(self, name: str) -> Tensor:
        """In the dtype of the head, where it computes."""
        return self.place(self.raw(name))

    def place(self, stored: Tensor) -> Tensor:
        """A tensor of this head, or one that it shares, as `read` returns them."""
        return stored.to(self.device.name, self.dtype)

    def get(self, name: str) -> Tensor | None:
        return self.read(name) if name in self else None

    def ids(self) -> Tensor | None:
        """The target's id of each of the head's tokens, ascending; None where they are the same."""
        if "d2t" not in self:
            return None
        ids_V = torch.arange(self.head.vocab) + self.raw("d2t").to(torch.int64)
        least, most = int(ids_V.min()), int(ids_V.max())
        if least < 0 or most >= self.head.target.vocab:
            raise CheckpointError(
                f"{self.head.folder}: d2t leads to token {least if least < 0 else most}, "
                f"the target has {self.head.target.vocab}"
            )
        if not bool((ids_V.diff() > 0).all()):
            raise CheckpointError(f"{self.head.folder}: d2t leads to tokens that do not ascend")
        return ids_V


def projection(head: Head, dtype: torch.dtype, device: str = "cpu") -> Projection | None:
    """What a head begins with, read; None where it begins otherwise."""
    where = places(head)
    return Projection.read(where, dtype, device) if where is not None else None


def shared(target: Path, *, tied: bool) -> tuple[Tensor, Tensor]:
    """Embedding and head [V, H] of a target checkpoint."""
    embedding_VH = tensor(target, "model.embed_tokens.weight")
    return embedding_VH, embedding_VH if tied else tensor(target, "lm_head.weight")
