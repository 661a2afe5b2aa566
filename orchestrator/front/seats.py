"""Which verifier gets a prompt: one that is about as idle as any and has seen the beginning of it before. Pure."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.front.messages import Member
from protocol.messages import Fingerprint, Limits


@dataclass(slots=True)
class Seat:
    """A verifier, as long as its link lives."""

    link: int
    node_id: str
    limits: Limits
    fingerprint: Fingerprint = Fingerprint()
    draining: bool = False
    choices: int = 0
    """In flight there, by this front door."""
    taken: int = 0
    pages: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Prefixes of recent prompts, each by the hash of all its pages; the oldest first."""

    @property
    def member(self) -> Member:
        return Member(
            role="verifier",
            node_id=self.node_id,
            limits=self.limits,
            fingerprint=self.fingerprint,
            draining=self.draining,
            choices=self.choices,
        )

    def shared(self, prefixes: Sequence[int]) -> int:
        """How many leading pages of a prompt this verifier may still hold."""
        for count, prefix in enumerate(prefixes):
            if prefix not in self.pages:
                return count
        return len(prefixes)

    def remember(self, prefixes: Iterable[int], memory: int) -> None:
        for prefix in prefixes:
            self.pages[prefix] = None
            self.pages.move_to_end(prefix)
        while len(self.pages) > memory:
            self.pages.popitem(last=False)


def prefixes(tokens: Sequence[int], page: int) -> list[int]:
    """A number for each run of full pages from the start. Collisions only cost speed."""
    numbers: list[int] = []
    before = 0
    for start in range(0, len(tokens) - page + 1, page):
        before = hash((before, *tokens[start : start + page]))
        numbers.append(before)
    return numbers


def choose(seats: Iterable[Seat], prompt: Sequence[int], slack: int) -> Seat | None:
    """The seat for a prompt with these prefixes: nobody waits behind a crowd for the sake of a shared prefix."""
    free = [seat for seat in seats if not seat.draining]
    least = min((seat.choices for seat in free), default=0)
    return min(
        (seat for seat in free if seat.choices <= least + slack),
        key=lambda seat: (-seat.shared(prompt), seat.choices, seat.taken, seat.node_id),
        default=None,
    )
