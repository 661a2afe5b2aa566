"""Which process computes on which GPU of this machine, and how much of its memory it may take. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

ROOM: Final = 0.95
"""What processes that share a GPU take of its memory together: the rest is the driver's."""


class GpusConfig(BaseModel):
    """GPUs of a service by role; processes of a role take turns. Roles without any compute on the CPU."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verifier: tuple[int, ...] = Field((), description="numbers of GPUs, as the driver counts them")
    drafter: tuple[int, ...] = Field((), description="the same for drafters; may be the same ones")
    verifier_share: float | None = Field(
        None, gt=0, le=1, description="of a GPU's memory for one verifier; empty: what others leave"
    )
    drafter_share: float | None = Field(
        None, gt=0, le=1, description="the same for one drafter; empty: what others leave"
    )


@dataclass(frozen=True, slots=True)
class Seat:
    """One process's part of a GPU; with several ranks, of one GPU for each."""

    gpus: tuple[int, ...]
    share: float

    @property
    def environment(self) -> Mapping[str, str]:
        """It sees these GPUs alone, under the numbers from 0 on."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, self.gpus))}

    @property
    def settings(self) -> Mapping[str, object]:
        """What its configuration says of it."""
        return {"device": "cuda", "gpu_share": self.share}


def seats(
    config: GpusConfig, counts: Mapping[str, int], ranks: Mapping[str, int] | None = None
) -> dict[tuple[str, int], Seat]:
    """A seat for each (role, number) that has one; a ValueError where shares come to more than a GPU.

    `ranks` says of roles how many GPUs one of their processes takes.
    """
    lists = {"verifier": config.verifier, "drafter": config.drafter}
    stated = {"verifier": config.verifier_share, "drafter": config.drafter_share}
    placed: dict[tuple[str, int], tuple[int, ...]] = {}
    for role, gpus in lists.items():
        each = (ranks or {}).get(role, 1)
        if gpus and each > len(gpus):
            raise ValueError(
                f"gpus.{role} has {len(gpus)} of the {each} GPUs that {each} ranks take"
            )
        for number in range(counts.get(role, 0) if gpus else 0):
            first = number * each
            placed[role, number] = tuple(
                gpus[place % len(gpus)] for place in range(first, first + each)
            )
    left_of: dict[int, float] = {}
    for gpu in sorted({gpu for where in placed.values() for gpu in where}):
        here = [who for who, where in placed.items() if gpu in where]
        taken = sum(share for role, _ in here if (share := stated[role]))
        open_ended = Counter(stated[role] is None for role, _ in here)[True]
        left = (ROOM - taken) / open_ended if open_ended else 0.0
        if taken > 1 or (open_ended and left <= 0):
            names = ", ".join(f"{role}-{number}" for role, number in here)
            raise ValueError(
                f"GPU {gpu} is shared by {names}: stated shares come to {taken:.0%} of it"
                + (f", and {open_ended} more have none left" if open_ended else "")
            )
        left_of[gpu] = left
    return {
        who: Seat(where, stated[who[0]] or min(left_of[gpu] for gpu in where))
        for who, where in placed.items()
    }
