"""Draft heads as they are published: one file a dialect, one line each in the table."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from drafter.checkpoints import deepspec, reference, specforge, speculators, zlab
from drafter.checkpoints.head import CheckpointError, Head, Source, Target, places

__all__ = ["DIALECTS", "CheckpointError", "Head", "Target", "places", "read"]


class Dialect(NamedTuple):
    """`speaks` looks at names only; `read` checks every field and shape."""

    speaks: Callable[[Source], bool]
    read: Callable[[Source], Head]


# `speculators` calls its heads what others call theirs: its own field comes first.
DIALECTS: Final[Mapping[str, Dialect]] = {
    "speculators": Dialect(speculators.any_of_them, speculators.read),
    "SpecForge EAGLE-3": Dialect(specforge.chain, specforge.read_chain),
    "SpecForge DSpark": Dialect(specforge.block, specforge.read_block),
    "z-lab DFlash": Dialect(zlab.block, zlab.read_block),
    "DeepSpec DSpark": Dialect(deepspec.block, deepspec.read_block),
    "DeepSpec EAGLE-3": Dialect(deepspec.chain, deepspec.read_chain),
    "EAGLE-3": Dialect(reference.third, reference.read_third),
    "EAGLE": Dialect(reference.first, reference.read_first),
}


def read(folder: Path, target: Target, convention: str = "", states: tuple[int, ...] = ()) -> Head:
    """The head in a checkpoint folder, fit for this target; or CheckpointError.

    `convention` (`in` or `out`) overrides how the dialect counts layers, `states` what comes of it.
    """
    source = Source.open(folder, target, convention, states)
    dialect = next((each for each in DIALECTS.values() if each.speaks(source)), None)
    if dialect is None:
        raise CheckpointError(
            f"{folder}: architecture {source.architecture!r} is no draft head that is known, "
            f"only those of {', '.join(DIALECTS)}"
        )
    return dialect.read(source)
