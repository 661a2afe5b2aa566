"""Checkpoints in safetensors, one file or many: checked by name and shape, then read one by one."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any, Final, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import EngineError

CHUNK: Final = 1 << 20
PICKLED: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt")
# Tables that old checkpoints store and that every reader computes.
DERIVED: Final = (".rotary_emb.inv_freq",)


def files(folder: Path) -> list[Path]:
    """The weight files of a checkpoint folder, in order of their names."""
    index = folder / "model.safetensors.index.json"
    names = (
        sorted(set(json.loads(index.read_text())["weight_map"].values()))
        if index.is_file()
        else ["model.safetensors"]
    )
    for name in names:
        if Path(name).name != name:
            raise EngineError(f"{index} names {name}, which is no file beside it")
    missing = [name for name in names if not (folder / name).is_file()]
    pickled = sorted(path.name for kind in PICKLED for path in folder.glob(kind))
    if missing and pickled:
        raise EngineError(
            f"{folder}/{pickled[0]} is pickled, and may run code when it is read: only safetensors are"
        )
    if missing:
        raise EngineError(f"{folder} lacks the weight files {', '.join(missing)}")
    return [folder / name for name in names]


def numbers(folder: Path) -> int:
    """How many numbers the weight files hold."""
    count = 0
    for path in files(folder):
        with safe_open(path, framework="pt") as file:
            count += sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118  # no mapping
    return count


def fingerprint(folder: Path) -> str:
    """The sha256 over the bytes of all weight files, in hexadecimal digits."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    for path in files(folder):
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(buffer):
                digest.update(buffer[:size])
    return digest.hexdigest()


class Weights:
    """An open checkpoint whose tensors have exactly the expected names and shapes."""

    def __init__(
        self,
        folder: Path,
        expected: Mapping[str, tuple[int, ...]],
        dtype: torch.dtype,
        ignored: frozenset[str] = frozenset(),
        device: str = "cpu",
    ) -> None:
        self._dtype = dtype
        self._device = device
        self._home: dict[str, Any] = {}
        with ExitStack() as stack:
            for path in files(folder):
                try:
                    file = stack.enter_context(safe_open(path, framework="pt"))
                except SafetensorError as error:
                    raise EngineError(f"{path} cannot be read: {error}") from error
                self._home.update(dict.fromkeys(file.keys(), file))
            self._check(folder, expected, ignored)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, name: str, rows: slice | None = None, columns: slice | None = None) -> Tensor:
        """One tensor, or these rows or columns of it, converted to the engine's dtype, on its device."""
        tensor: Tensor
        if rows is None and columns is None:
            tensor = self._home[name].get_tensor(name)
        else:
            whole = self._home[name].get_slice(name)
            tensor = whole[rows] if columns is None else whole[:, columns]
        return tensor.to(self._device, self._dtype)

    def _check(
        self, folder: Path, expected: Mapping[str, tuple[int, ...]], ignored: frozenset[str]
    ) -> None:
        found = {
            name: tuple(file.get_slice(name).get_shape())
            for name, file in self._home.items()
            if name not in ignored and not name.endswith(DERIVED)
        }
        faults = [
            *(f"{name} is missing" for name in expected if name not in found),
            *(f"{name} is unexpected" for name in found if name not in expected),
            *(
                f"{name} is {found[name]}, not {shape}"
                for name, shape in expected.items()
                if found.get(name, shape) != shape
            ),
        ]
        if faults:
            raise EngineError(f"weights in {folder} do not fit the model: {'; '.join(faults)}")
