"""A model over several processes: each rank has some of its heads, and all run every forward. Pure.

Rank 0 decides what is computed. It tells the others the rows of each forward, and these say all there is to know: ids,
places, page tables. So the pages of all ranks hold the same positions, each rank those of its own heads, and whatever
rank 0 does with pages (shares, frees, takes back) needs no word of its own.

Shapes: T tokens, H hidden, N positions whose logits are wanted, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from engine.batch import Row
from engine.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.config import ModelConfig

OVER: Final = b""
"""What rank 0 says last: there will be no further forward."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a model that is rank `rank`'s, of so many."""

    rank: int = 0
    ranks: int = 1

    def of(self, size: int) -> slice:
        """Which of so many neighbours it has; some ranks have one more than others where they cannot be alike."""
        return slice(size * self.rank // self.ranks, size * (self.rank + 1) // self.ranks)

    def own(self, model: "ModelConfig") -> "ModelConfig":
        """The model as this rank's memory and attention see it, or an EngineError where heads cannot be dealt out."""
        for count, kind in ((model.heads, "query"), (model.kv_heads, "key/value")):
            if count % self.ranks:
                raise EngineError(
                    f"{model.architecture} cannot span {self.ranks} ranks: "
                    f"its {count} {kind} heads are no multiple of {self.ranks}"
                )
        return replace(
            model, heads=model.heads // self.ranks, kv_heads=model.kv_heads // self.ranks
        )


class Ranks(Protocol):
    """What ranks say to each other within a forward."""

    shard: Shard

    def meet(self) -> None:
        """Wait until all ranks are here, however long they take to load; what follows has shorter bounds."""

    def sum(self, part_TH: "Tensor") -> "Tensor":
        """The sum of what all ranks give, on each of them; may change what was given."""

    def gather(self, part_NV: "Tensor", size: int) -> "Tensor":
        """On rank 0 the parts of all ranks side by side, `size` numbers wide; elsewhere what was given.

        Each gives as many numbers as `Shard.of` says.
        """


class Words(Ranks, Protocol):
    """The same, and what rank 0 says before each forward."""

    def tell(self, words: bytes) -> None:
        """On rank 0: say it to all others."""

    def hear(self) -> bytes:
        """On the others: wait for what rank 0 says next."""


class Alone:
    """The only rank."""

    shard = Shard()

    def meet(self) -> None:
        pass

    @staticmethod
    def sum(part_TH: "Tensor") -> "Tensor":
        return part_TH

    @staticmethod
    def gather(part_NV: "Tensor", size: int) -> "Tensor":
        del size
        return part_NV


ALONE: Final = Alone()


def spoken(rows: Sequence[Row]) -> bytes:
    """The rows of a forward as they are told."""
    return msgspec.msgpack.encode(
        [(row.tokens, row.start, row.pages, row.logits, row.seen) for row in rows],
        enc_hook=list,  # ranges
    )


_Told = tuple[list[int], int, list[int], int, list[int] | None]


def heard(words: bytes) -> list[Row]:
    """The same rows; a `msgspec.ValidationError` if they are none."""
    told = msgspec.msgpack.decode(words, type=list[_Told])
    return [Row(*each) for each in told]
