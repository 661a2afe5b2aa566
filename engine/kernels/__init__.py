"""Triton kernels. Each file holds kernels and the functions that launch them; nothing else imports triton.

A kernel's arguments are pointers, named like the tensors they point to, then numbers, then constants in capitals, for
each set of which it is compiled anew.
"""

import os

from engine.errors import EngineError

# A product and a sum are one rounding, as the kernels were checked with. Said here, since Triton's own choice changes
# with 3.10, and 3.9 warns of that at every kernel.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def interpreted() -> bool:
    """Whether kernels are run by Triton's interpreter, which is chosen before they are read."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def check(device: str) -> None:
    """An EngineError where kernels cannot run on tensors of this device."""
    if not device.startswith("cuda") and not interpreted():
        raise EngineError(f"Triton's kernels run on a CUDA device, not on {device}")
