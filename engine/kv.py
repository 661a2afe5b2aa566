"""Keys and values kept as shorter numbers than the model computes in: where that can be had, and how they are stored.

Shapes: T tokens, K key/value heads, D head size, P pages, S positions of a page; 2 is (key, value).
"""

from typing import Final

import torch
from torch import Tensor

from engine.attention import chosen
from engine.config import EngineConfig
from engine.errors import EngineError

READS: Final = "triton"
"""The backend of attention that reads numbers of one byte."""
LEAST: Final = (8, 9)
"""Capability of the first GPUs whose compiler has `float8_e4m3fn`; `float8_e5m2` it has for all that are served."""


def capability(device: str) -> tuple[int, int] | None:
    """What a GPU's generation is called; None is no GPU."""
    return None if device == "cpu" else torch.cuda.get_device_capability(device)


def check(config: EngineConfig, capability: tuple[int, int] | None) -> None:
    """An EngineError where pages cannot hold what is asked for."""
    if config.kv_dtype == "auto":
        return
    attention = chosen(config.attention, config.device)
    if attention != READS:
        raise EngineError(
            f"kv_dtype {config.kv_dtype} needs attention {READS}; on {config.device} it is {attention}, "
            "which reads pages in the model's own numbers: kv_dtype auto"
        )
    if capability is not None and capability < LEAST and config.kv_numbers == "float8_e4m3fn":
        has, needs = (".".join(map(str, each)) for each in (capability, LEAST))
        raise EngineError(
            f"kv_dtype {config.kv_dtype} needs a GPU of compute capability {needs} or later, "
            f"{config.device} has {has}: there kv_dtype fp8_e5m2 works"
        )


def keep(kv_PS2KD: Tensor, slots_T: Tensor, k_TKD: Tensor, v_TKD: Tensor) -> None:
    """Put keys and values into their slots, as the numbers that pages hold; what is too large becomes the largest."""
    new_T2KD = torch.stack((k_TKD, v_TKD), dim=1)
    held = kv_PS2KD.flatten(0, 1)
    if held.dtype.itemsize == 1:
        largest = torch.finfo(held.dtype).max
        new_T2KD = new_T2KD.clamp(-largest, largest).to(held.dtype).view(torch.uint8)
        held = held.view(torch.uint8)  # in which torch has no numbers that it cannot copy
    held.index_copy_(0, slots_T, new_T2KD)
