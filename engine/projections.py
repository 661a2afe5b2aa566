"""Where a projection of hidden states lies. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a checkpoint folder holds a projection: names of tensors, empty where it has none.

    In order: an RMS norm of each captured state, or one of all of them; `fc`; an RMS norm of that.
    """

    folder: Path
    fc: str
    part_norms: tuple[str, ...] = ()
    joint_norm: str = ""
    norm: str = ""
    eps: float = 1e-6
