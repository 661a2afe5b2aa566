"""A drafter that believes what a file says: for tests and experiments."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from drafter.config import DrafterConfig
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from drafter.proposers.script import read_script


class ScriptError(ValueError):
    """The script is missing or is not one."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prompt: tuple[int, ...]
    output: tuple[int, ...]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole output that is expected for a prompt, and for every prompt that is not listed."""

    default: tuple[int, ...] = ()
    by_prompt: tuple[_Entry, ...] = ()
    confidence: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 1.0


class ScriptedProposer:
    """A Proposer that guesses what stands in the script at the line's positions, whatever the line says."""

    def __init__(self, script: Script) -> None:
        self._outputs = {entry.prompt: entry.output for entry in script.by_prompt}
        self._default = script.default
        self._confidence = script.confidence

    def open(self, mirror: Mirror) -> None:
        """Everything is known."""

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        """The script does not change."""

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [self._continue(mirror, want) for mirror, want in wants]

    def close(self, mirror: Mirror) -> None:
        """Nothing was kept."""

    def _continue(self, mirror: Mirror, want: int) -> Proposal:
        output = self._outputs.get(mirror.prompt, self._default)
        start = len(mirror.line)
        tokens = output[start : start + want]
        return Proposal(tokens, (self._confidence,) * len(tokens))


def make(config: DrafterConfig) -> ScriptedProposer:
    """Read the script that the configuration names; a ScriptError says what is wrong with it."""
    return ScriptedProposer(read_script(config, Script, ScriptError, "script"))
