"""What a role takes of a GPU's memory, said before anything is taken, and refused where it is too much. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.errors import EngineError

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Allotment:
    """Bytes by what they are for, in the order in which they are taken; `share` of `total` is the role's."""

    parts: Mapping[str, int]
    total: int
    share: float

    @property
    def needed(self) -> int:
        return sum(self.parts.values())

    @property
    def allowed(self) -> int:
        return int(self.total * self.share)

    @property
    def text(self) -> str:
        """One line, in GiB."""
        parts = ", ".join(f"{name} {size / GIB:.2f}" for name, size in self.parts.items())
        return (
            f"GPU memory in GiB: {parts}; {self.needed / GIB:.2f} of {self.allowed / GIB:.2f} "
            f"({self.share:.0%} of {self.total / GIB:.2f})"
        )

    def check(self) -> None:
        """An EngineError with the numbers where it does not fit."""
        if self.needed > self.allowed:
            over = (self.needed - self.allowed) / GIB
            raise EngineError(f"the plan does not fit, by {over:.2f} GiB. {self.text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Of a model and of the largest forward that is captured."""

    vocab: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    tokens: int
    itemsize: int

    @property
    def forward(self) -> int:
        """What the largest forward has in memory at once, beside its logits: one layer's, for graphs share a pool.

        Residual, its norm, two of a sum; queries, keys and values, and what attention makes of them; both halves of the
        MLP and their product; logits in the model's numbers, and as float32.
        """
        heads = self.heads * 2 + self.kv_heads * 2
        numbers = 4 * self.hidden + heads * self.head_dim + 3 * self.intermediate + self.vocab
        return self.tokens * (numbers * self.itemsize + self.vocab * 4)

    @property
    def logits(self) -> int:
        """The buffer that logits are returned in, and a copy for requests that want scores of raw ones."""
        return 2 * self.tokens * self.vocab * 4
