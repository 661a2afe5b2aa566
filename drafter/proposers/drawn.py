"""A drafter that draws each guess from a law that a file gives: for tests and experiments with rules that use laws."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from drafter.config import DrafterConfig
from drafter.mirror import Kept, Mirror
from drafter.noise import noise
from drafter.proposers import Proposal
from drafter.proposers.script import read_script
from engine.truncated import pick
from protocol.laws import Law


class LawError(ValueError):
    """The file of laws is missing or is not one."""


_Share = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class Laws(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pairs of a token and its probability: of any next token, and of the one that follows a certain last token."""

    default: tuple[tuple[int, _Share], ...]
    after: dict[int, tuple[tuple[int, _Share], ...]] = {}


class DrawnProposer:
    """A Proposer. What it sends are the numbers of the file in float32, and it draws by these.

    Where the verifier takes no laws it guesses all the same, and says nothing of how.
    """

    def __init__(self, laws: Laws) -> None:
        self._default = _law(laws.default)
        self._after = {token: _law(pairs) for token, pairs in laws.after.items()}

    def open(self, mirror: Mirror) -> None:
        """Everything is known."""

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        """The laws do not change."""

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [self._continue(mirror, want) for mirror, want in wants]

    def close(self, mirror: Mirror) -> None:
        """Nothing was kept."""

    def _continue(self, mirror: Mirror, want: int) -> Proposal:
        begin = len(mirror.prompt) + len(mirror.line)
        last = (mirror.line or mirror.prompt or (0,))[-1]
        tokens: list[int] = []
        laws: list[Law] = []
        for uniform in noise([mirror] * want, range(begin, begin + want)):
            law = self._after.get(last, self._default)
            last = int(law.ids[pick(law.values.tolist(), uniform)])
            tokens.append(last)
            laws.append(law)
        confidences = [float(law.values.max()) for law in laws]
        return Proposal(tokens, confidences, laws=laws if mirror.slice else ())


def _law(pairs: Sequence[tuple[int, float]]) -> Law:
    ids = [token for token, _ in pairs]
    if len(set(ids)) != len(ids) or abs(sum(share for _, share in pairs) - 1) > 1e-6:
        raise LawError(f"a law needs different tokens whose shares come to 1: {list(pairs)}")
    return Law(np.array(ids, np.int32), np.array([share for _, share in pairs], np.float32))


def make(config: DrafterConfig) -> DrawnProposer:
    """Read the laws that the configuration names; a LawError says what is wrong with them."""
    return DrawnProposer(read_script(config, Laws, LawError, "file"))
