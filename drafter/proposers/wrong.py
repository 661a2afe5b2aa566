"""A drafter that is always wrong: what verification must survive, and the worst that drafting can cost."""

from collections.abc import Sequence
from typing import Final

from drafter.config import DrafterConfig
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal

_IDS: Final = 16  # the lowest ids, in any vocabulary; in real ones special tokens that a target hardly ever picks


class WrongProposer:
    """A Proposer of guesses that nobody should accept, with full confidence.

    It does not know the target, so this is a very likely miss, not a certain one: ids below 16, each other than the
    one before it and moving with the position, so that no target that repeats itself is met for long.
    """

    def open(self, mirror: Mirror) -> None:
        """Nothing to know."""

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        """Nothing to learn."""

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [self._continue(mirror, want) for mirror, want in wants]

    def close(self, mirror: Mirror) -> None:
        """Nothing to keep."""

    def _continue(self, mirror: Mirror, want: int) -> Proposal:
        token = (mirror.line or mirror.prompt or (0,))[-1]
        tokens: list[int] = []
        for position in range(len(mirror.line), len(mirror.line) + want):
            turned = (token + 1 + position) % _IDS
            token = turned if turned != token else (turned + 1) % _IDS
            tokens.append(token)
        return Proposal(tokens, [1.0] * want)


def make(_: DrafterConfig) -> WrongProposer:
    return WrongProposer()
