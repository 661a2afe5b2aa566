"""Several methods in one drafter: for each mirror and round one of them drafts, chosen by what was accepted lately.

The choice is made when a commit comes, before anything is drawn, and looks at counts of earlier rounds only: so it is
sound under every acceptance rule. A method that was not tried yet comes first; now and then another one has its turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drafter.capabilities import Bounded, Learns, TakesHidden
from drafter.config import DrafterConfig
from drafter.mirror import Kept, Mirror
from drafter.proposers import PROPOSERS, Proposal, Proposer
from protocol.tensor import Tensor

NEWEST: Final = 0.2
"""What the newest round weighs in a score."""
PROBE_EVERY: Final = 16
"""Rounds after which the method that waited longest has its turn."""


@dataclass(slots=True)
class _Record:
    """How one mirror fared: tokens accepted a round, lately, for each method that was tried."""

    base: int
    chosen: str
    rounds: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)  # the round when each was chosen last

    def judge(self, accepted: int) -> None:
        """So many tokens of the chosen method's round became true."""
        before = self.scores.get(self.chosen, float(accepted))
        self.scores[self.chosen] = before + NEWEST * (accepted - before)
        self.turns[self.chosen] = self.rounds
        self.rounds += 1

    def choose(self, names: Sequence[str]) -> None:
        untried = [name for name in names if name not in self.scores]
        if untried:
            self.chosen = untried[0]
        elif self.rounds % PROBE_EVERY == 0:
            self.chosen = min(names, key=lambda name: self.turns[name])
        else:
            self.chosen = max(names, key=lambda name: self.scores[name])


class MixedProposer:
    """All methods follow every mirror; only the chosen one guesses."""

    def __init__(self, proposers: Mapping[str, Proposer]) -> None:
        self._proposers = proposers
        self._names = list(proposers)
        self._records: dict[Mirror, _Record] = {}
        readers = [each for each in proposers.values() if isinstance(each, TakesHidden)]
        self.needs = tuple(dict.fromkeys(need for each in readers for need in each.needs))
        bounds = [each.context for each in proposers.values() if isinstance(each, Bounded)]
        self.context = min(filter(None, bounds), default=0)

    def open(self, mirror: Mirror) -> None:
        self._records[mirror] = _Record(mirror.base, self._names[0])
        for each in self._proposers.values():
            each.open(mirror)

    def close(self, mirror: Mirror) -> None:
        self._records.pop(mirror, None)
        for each in self._proposers.values():
            each.close(mirror)

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        record = self._records[mirror]
        record.judge(kept.true - record.base)
        record.base = mirror.base
        record.choose(self._names)
        for each in self._proposers.values():
            each.adopt(mirror, kept)

    def hidden(self, mirror: Mirror, start: int, rows: Tensor) -> None:
        for each in self._proposers.values():
            if isinstance(each, TakesHidden):
                each.hidden(mirror, start, rows)

    def reset(self) -> None:
        for each in self._proposers.values():
            if isinstance(each, Learns):
                each.reset()

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        proposals = [Proposal()] * len(wants)
        for name, proposer in self._proposers.items():
            places = [
                index for index, (each, _) in enumerate(wants) if self._records[each].chosen == name
            ]
            if places:
                made = proposer.propose([wants[index] for index in places])
                for index, proposal in zip(places, made, strict=True):
                    proposals[index] = proposal
        return proposals


def make(config: DrafterConfig) -> MixedProposer:
    """The methods that are configured; a ValueError says what is wrong with one."""
    unknown = [name for name in config.mixed if name not in PROPOSERS or name == "mixed"]
    if unknown or not config.mixed:
        known = ", ".join(name for name in PROPOSERS if name != "mixed")
        raise ValueError(
            f"method mixed cannot hold {', '.join(unknown) or 'nothing'}, only {known}"
        )
    return MixedProposer(
        {
            name: PROPOSERS[name](config.model_copy(update={"method": name}))
            for name in dict.fromkeys(config.mixed)
        }
    )
