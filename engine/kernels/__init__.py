"""Triton kernels. Each file holds kernels and the functions that launch them; nothing else imports triton.

A kernel's arguments are pointers, named like the tensors they point to, then numbers, then constants in capitals, for
each set of which it is compiled anew.
"""

import os

from engine.errors import EngineError


def check(device: str) -> None:
    """An EngineError where kernels cannot run on tensors of this device."""
    if not device.startswith("cuda") and os.environ.get("TRITON_INTERPRET") != "1":
        raise EngineError(f"Triton's kernels run on a CUDA device, not on {device}")
