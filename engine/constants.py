"""What draft heads share with their target (embedding, output matrix), as one safetensors file that need not exist.

A drafter without the target's checkpoint is sent this image in pieces, and keeps it as a folder that reads like a
checkpoint with nothing but those tensors. The same weights always give the same image, so their hash names it.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import EngineError
from engine.weights import files, fingerprint

SHARED: Final = ("model.embed_tokens.weight", "lm_head.weight")
MADE_OF: Final = "weights"
CONFIGURATION: Final = "config"
IMAGE: Final = "model.safetensors"
_LENGTH_BYTES: Final = 8


class Constants:
    """The image of one checkpoint: `length` bytes, of which any part can be read without making the rest."""

    def __init__(self, folder: Path, weights: str) -> None:
        stack = ExitStack()
        self._parts: list[Any] = []  # slices of open files
        header: dict[str, object] = {
            "__metadata__": {
                MADE_OF: weights,
                CONFIGURATION: (folder / "config.json").read_text(encoding="utf-8"),
            }
        }
        sizes: list[int] = []
        opened = [stack.enter_context(safe_open(path, framework="pt")) for path in files(folder)]
        for name in SHARED:
            for file in opened:
                if name not in file.keys():  # noqa: SIM118  # it is no mapping
                    continue
                part = file.get_slice(name)
                first = sum(sizes)
                sizes.append(prod(part.get_shape()) * _itemsize(part))
                entry = {
                    "dtype": part.get_dtype(),
                    "shape": part.get_shape(),
                    "data_offsets": [first, first + sizes[-1]],
                }
                header[name] = entry
                self._parts.append(part)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % _LENGTH_BYTES)
        self._header = len(text).to_bytes(_LENGTH_BYTES, "little") + text
        self._ends = list(accumulate(sizes, initial=len(self._header)))
        self._stack = stack
        self.length = self._ends[-1]

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` on: fewer where a tensor ends, none behind the last."""
        if offset < len(self._header):
            return self._header[offset : offset + size]
        index = bisect_right(self._ends, offset) - 1
        if index >= len(self._parts):
            return b""
        part = self._parts[index]
        start = offset - self._ends[index]
        end = min(start + size, self._ends[index + 1] - self._ends[index])
        row = prod(part.get_shape()[1:]) * _itemsize(part)
        rows = part[start // row : -(-end // row)].contiguous().view(torch.uint8).numpy().tobytes()
        skipped = start // row * row
        return bytes(rows[start - skipped : end - skipped])


def _itemsize(part: Any) -> int:  # noqa: ANN401  # the library has no type for it
    """Bytes of a number, of an open slice."""
    itemsize: int = part[0:1].dtype.itemsize
    return itemsize


def unpack(folder: Path, weights: str) -> None:
    """Make `folder`, which holds a whole image, read like a checkpoint; EngineError if it is none of these weights."""
    metadata = _metadata(folder / IMAGE)
    if metadata.get(MADE_OF) != weights or CONFIGURATION not in metadata:
        raise EngineError(
            f"{folder / IMAGE} is of weights {metadata.get(MADE_OF) or 'unknown'}, not {weights}"
        )
    (folder / "config.json").write_text(metadata[CONFIGURATION], encoding="utf-8")


def target_weights(folder: Path) -> str:
    """The hash of the target whose checkpoint, or whose constants, this folder holds."""
    found = files(folder)
    if len(found) == 1 and (weights := _metadata(found[0]).get(MADE_OF)):
        return weights
    return fingerprint(folder)


def _metadata(path: Path) -> Mapping[str, str]:
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise EngineError(f"{path} cannot be read: {error}") from error
