"""Simulated drafters: they guess from a hash of their whole prefix, computed over draft KV that only `Kept` cuts.

The confidence that travels with a token is a fingerprint of the prefix it was drafted from and of the token itself:
whoever holds the token can tell whether it still stands where it was drafted.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

import numpy as np

from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from protocol.laws import Law
from protocol.tensor import Tensor
from tests.sim.breach import Breach
from tests.sim.model import ROOT, Chain, mix

STATES: Final = "hash states"
"""What drafters that need hidden states need here."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How good a drafter is (0 to 1), and how often it re-drafts, stops short or says that more will come."""

    salt: int
    accuracy: float
    redrafts: float = 0.0
    short: float = 0.0
    pending: float = 0.0
    features: bool = (
        False  # it guesses from rows: KV of guesses is worth nothing once they are committed
    )
    pace: float = 0.0  # seconds of a forward at most

    def guess(self, chain: Chain, mirror: Mirror, state: int, position: int, variant: int) -> int:
        """The token for `position` after the tokens of `state`; another one for most other variants when wrong."""
        right = chain.draw(state, mirror.sampling, mirror.choice, position)
        word = mix(mix(state, self.salt), variant)
        if word % 1000 < 1000 * self.accuracy:
            return right
        return (right + 1 + (word >> 20) % (chain.vocabulary - 1)) % chain.vocabulary

    def fingerprint(self, state: int, token: int, epoch: int) -> float:
        """What nobody can say who drafted `token` from another prefix or in another epoch."""
        return (mix(mix(state, self.salt + epoch), 1000 + token) >> 11) / (1 << 53)


@dataclass(slots=True)
class _Memory:
    """Draft KV of one mirror: the state of every computed position; the output line when it was last seen; the most
    guesses that were ever granted; the position after the newest row of hidden states, where there was one.
    """

    most: int
    states: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    told: int | None = None


def law_of(token: int, confidence: float, vocabulary: int) -> Law:
    """The law that goes with a guess of this confidence."""
    share = np.float32(0.25 + confidence / 2)
    ids = np.array([token, (token + 1) % vocabulary], np.int32)
    return Law(ids, np.array([share, np.float32(1) - share], np.float32))


class HashProposer:
    """One drafter's proposer. `memories` has an entry for every open mirror."""

    def __init__(
        self, profile: Profile, chain: Chain, rng: random.Random, elapse: Callable[[float], None]
    ) -> None:
        self.profile = profile
        self.needs = (STATES,) if profile.features else ()
        self.memories: dict[tuple[int, int], _Memory] = {}
        self._chain = chain
        self._rng = rng
        self._elapse = elapse

    def open(self, mirror: Mirror) -> None:
        self.memories[mirror.key] = _Memory(mirror.max_ahead, line=list(mirror.line))

    def close(self, mirror: Mirror) -> None:
        del self.memories[mirror.key]

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        memory = self.memories[mirror.key]
        pairs = zip(memory.line, mirror.line, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if (kept.tokens, kept.true) != (common, min(common, mirror.base)):
            raise Breach(f"request {mirror.request}: {kept}, but {common} tokens are the same")
        if mirror.exhausted:
            raise Breach(f"request {mirror.request}: no more guesses, although the base is newer")
        survivors = kept.true if self.profile.features else kept.tokens
        del memory.states[len(mirror.prompt) + survivors :]
        memory.line = list(mirror.line)
        memory.most = max(memory.most, mirror.max_ahead)

    def hidden(self, mirror: Mirror, start: int, rows: Tensor) -> None:
        """Rows are the states of their positions, one behind the other, and none is of a token to come."""
        memory = self.memories[mirror.key]
        told = start if memory.told is None else memory.told
        end = start + rows.shape[0]
        text = (*mirror.prompt, *mirror.line[: mirror.base])
        if start != told or end > len(text):
            raise Breach(f"request {mirror.request}: rows {start} to {end}, known before {told}")
        states = self._chain.walk(ROOT, text[:end])[start:]
        data = bytes(rows.data)
        if [
            int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(len(states))
        ] != states:
            raise Breach(f"request {mirror.request}: rows of other positions at {start} to {end}")
        memory.told = end

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        self._elapse(self.profile.pace)
        return [self._propose(mirror, want) for mirror, want in wants]

    def _propose(self, mirror: Mirror, want: int) -> Proposal:
        rng, profile = self._rng, self.profile
        if profile.features and self.memories[mirror.key].told != _anchor(mirror):
            return Proposal()  # more rows are on their way
        if len(mirror.line) > mirror.base and rng.random() < profile.redrafts:
            start = rng.randrange(mirror.base, len(mirror.line))
            tokens, confidences = self._draft(
                mirror, start, len(mirror.line) - start, rng.randint(1, 3)
            )
            mirror.replace(start, tokens, confidences, self._laws(mirror, tokens, confidences))
        pending = rng.random() < profile.pending
        count = rng.randint(0, want) if pending or rng.random() < profile.short else want
        tokens, confidences = self._draft(mirror, len(mirror.line), count, 0)
        self.memories[mirror.key].line = mirror.line + tokens
        return Proposal(tokens, confidences, pending, self._laws(mirror, tokens, confidences))

    def _laws(
        self, mirror: Mirror, tokens: Sequence[int], confidences: Sequence[float]
    ) -> list[Law]:
        """Where they are wanted, laws that only these tokens with these confidences have."""
        if not mirror.slice:
            return []
        vocabulary = self._chain.vocabulary
        return [
            law_of(token, confidence, vocabulary)
            for token, confidence in zip(tokens, confidences, strict=True)
        ]

    def _draft(
        self, mirror: Mirror, start: int, count: int, variant: int
    ) -> tuple[list[int], list[float]]:
        """Tokens for output positions `start`...; what is not in the KV yet is computed from the line."""
        states = self.memories[mirror.key].states
        begin = len(mirror.prompt) + start
        del states[begin:]
        known = (*mirror.prompt, *mirror.line[:start])
        states += self._chain.walk(states[-1] if states else ROOT, known[len(states) :])
        tokens: list[int] = []
        confidences: list[float] = []
        for position in range(begin, begin + count):
            token = self.profile.guess(self._chain, mirror, states[-1], position, variant)
            tokens.append(token)
            confidences.append(self.profile.fingerprint(states[-1], token, mirror.epoch))
            states.append(self._chain.after(states[-1], token))
        return tokens, confidences


def _anchor(mirror: Mirror) -> int:
    """The position of the newest committed token: rows are known before it, or none."""
    return len(mirror.prompt) + mirror.base - 1
