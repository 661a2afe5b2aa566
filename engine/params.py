"""How a request wants its tokens drawn."""

from dataclasses import dataclass
from typing import Final, Protocol, Self

import numpy as np

from engine.errors import EngineError

COLDEST: Final = 1e-6  # colder ones are taken as this: logits divided by less leave float32
FLOOR_DEPTH: Final = 0x42A00000
"""The depth (see `engine.kernels.sampling`) of what has no weight: of -80."""


class Wish(Protocol):
    """Whatever says how to draw, and perhaps more: the engine knows no messages."""

    @property
    def temperature(self) -> float: ...

    @property
    def top_k(self) -> int: ...

    @property
    def top_p(self) -> float: ...

    @property
    def min_p(self) -> float: ...

    @property
    def seed(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 filter nothing; seeds are 64 bits."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        legal = {
            "temperature": 0.0 <= self.temperature < float("inf"),
            "top_k": self.top_k >= 0,
            "top_p": 0.0 < self.top_p <= 1.0,
            "min_p": 0.0 <= self.min_p <= 1.0,
            "seed": 0 <= self.seed < 1 << 64,
        }
        for name, fine in legal.items():
            if not fine:
                raise EngineError(f"{name} cannot be {getattr(self, name)}")

    @classmethod
    def of(cls, wish: Wish) -> Self:
        """What it says of drawing; an EngineError names a value that cannot be."""
        return cls(
            temperature=wish.temperature,
            top_k=wish.top_k,
            top_p=wish.top_p,
            min_p=wish.min_p,
            seed=wish.seed,
        )

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken, the lowest id of equals."""
        return self.temperature == 0.0

    @property
    def filters(self) -> bool:
        """Whether some tokens may be excluded."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0


def depth(min_p: float) -> int:
    """Below which no token is kept, for its share of the likeliest token's probability."""
    if min_p <= 0:
        return FLOOR_DEPTH
    bits = int(np.array(np.log(min_p), np.float32).view(np.int32)) & 0x7FFFFFFF
    return min(bits, FLOOR_DEPTH)
