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
    """One process's part of a GPU."""

    gpu: int
    share: float

    @property
    def environment(self) -> Mapping[str, str]:
        """It sees this GPU alone, under the number 0."""
        return {"CUDA_VISIBLE_DEVICES": str(self.gpu)}

    @property
    def settings(self) -> Mapping[str, object]:
        """What its configuration says of it."""
        return {"device": "cuda", "gpu_share": self.share}


def seats(config: GpusConfig, counts: Mapping[str, int]) -> dict[tuple[str, int], Seat]:
    """A seat for each (role, number) that has one; a ValueError where shares come to more than a GPU."""
    lists = {"verifier": config.verifier, "drafter": config.drafter}
    stated = {"verifier": config.verifier_share, "drafter": config.drafter_share}
    placed = {
        (role, number): gpus[number % len(gpus)]
        for role, gpus in lists.items()
        if gpus
        for number in range(counts.get(role, 0))
    }
    found: dict[tuple[str, int], Seat] = {}
    for gpu in sorted(set(placed.values())):
        here = [who for who, where in placed.items() if where == gpu]
        taken = sum(share for role, _ in here if (share := stated[role]))
        open_ended = Counter(stated[role] is None for role, _ in here)[True]
        left = (ROOM - taken) / open_ended if open_ended else 0.0
        if taken > 1 or (open_ended and left <= 0):
            names = ", ".join(f"{role}-{number}" for role, number in here)
            raise ValueError(
                f"GPU {gpu} is shared by {names}: stated shares come to {taken:.0%} of it"
                + (f", and {open_ended} more have none left" if open_ended else "")
            )
        for who in here:
            found[who] = Seat(gpu, stated[who[0]] or left)
    return found
