"""Layer ids of the target, from the convention of their dialect to the one that is used here."""

import logging
from typing import Final

from drafter.checkpoints.head import IN, OUT, CheckpointError, Source, Target

log = logging.getLogger(__name__)

CONVENTIONS: Final = {IN: 0, OUT: 1}
"""`in`: v is the input of layer v; `out`: v is its output, and -1 the embedding. What must be added."""


def eagle3_default(target: Target) -> tuple[int, ...]:
    """Where nothing is said: the inputs of these layers."""
    return (2, target.layers // 2, target.layers - 3)


def states(source: Source, ids: list[int] | None, usual: str) -> tuple[int, ...]:
    """The states that a list of layer ids means; `usual` is its dialect's convention."""
    if source.states:
        return _checked(source, source.states, "the configured states")
    if ids is None:
        return _checked(source, eagle3_default(source.target), "the default states")
    convention = source.convention or usual
    if convention not in CONVENTIONS:
        raise CheckpointError(f"layer convention {convention!r} is neither {IN!r} nor {OUT!r}")
    _warn(source, ids, convention)
    shift = CONVENTIONS[convention]
    return _checked(source, tuple(each + shift for each in ids), f"layer ids {ids} ({convention})")


def _warn(source: Source, ids: list[int], convention: str) -> None:
    """A list that is the default of the other convention was probably meant in that one."""
    other = OUT if convention == IN else IN
    meant = [each - CONVENTIONS[other] for each in eagle3_default(source.target)]
    if ids == meant and not source.convention:
        log.warning(
            "%s: layer ids %s are read as %r, but are what %r has by default; set the layer convention if so",
            source.folder, ids, convention, other,
        )  # fmt: skip


def _checked(source: Source, found: tuple[int, ...], what: str) -> tuple[int, ...]:
    last = source.target.layers + 1
    if not found or min(found) < 0 or max(found) > last or len(set(found)) != len(found):
        raise CheckpointError(
            f"{source.folder}: {what} are states {list(found)}, the target has 0 to {last}"
        )
    return found
