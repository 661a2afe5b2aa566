"""Prefill nodes as the side that asks them knows them, and which of them a prompt is offered to. Pure.

What counts is how many tokens a node must compute until it has the prompt: what is queued there, and what of the prompt
it did not get before. A node that failed lately goes without some prompts, twice as many each time.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kvtransfer.config import HandoverConfig
from kvtransfer.leases import Lease
from protocol.messages import AnyMessage, KvCredit, Tokens

REMEMBERED: Final = 32
"""Prompts of a prefill node that it may still have in its pages."""
MOST_SKIPPED: Final = 64
"""Prompts that are not offered to a node that fails, at most: then it is tried again."""


@dataclass(slots=True)
class Giver:
    """One live link with a prefill node."""

    node_id: str
    channels: tuple[str, ...]  # that lead to it, as far as is known
    queued: int = 0  # tokens that wait there, as it said
    draining: bool = False
    prompts: deque[Tokens] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    places: list[int] = field(default_factory=list)  # to be given back
    news: list[AnyMessage] = field(default_factory=list)
    skip: int = 0  # prompts that it goes without now
    _next: int = 1  # and how many after its next failure

    def failed(self) -> None:
        """A hand-over did not end well, and it was not for us to end it."""
        self.skip, self._next = self._next, min(2 * self._next, MOST_SKIPPED)

    def succeeded(self) -> None:
        self.skip, self._next = 0, 1

    def messages(self) -> list[AnyMessage]:
        """What it must be told now; said once."""
        said, self.news = self.news, []
        if self.places:
            said.append(KvCredit(tuple(self.places)))
            self.places = []
        return said


class Givers:
    """All live prefill nodes, in the order in which they came."""

    def __init__(self, config: HandoverConfig) -> None:
        self._config = config
        self._nodes: dict[int, Giver] = {}

    def __contains__(self, link: int) -> bool:
        return link in self._nodes

    def __getitem__(self, link: int) -> Giver:
        return self._nodes[link]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes)

    def add(self, link: int, giver: Giver) -> None:
        self._nodes[link] = giver

    def remove(self, link: int) -> None:
        self._nodes.pop(link, None)

    def choose(self, tokens: Tokens, leases: Mapping[int, Lease]) -> int | None:
        """The link of the node that has least to do until it has computed these tokens; None: none would be quick."""
        owed, jobs = Counter[int](), Counter[int]()
        for lease in leases.values():
            owed[lease.link] += lease.end - lease.complete
            jobs[lease.link] += 1
        found: dict[int, int] = {}
        for link, node in self._nodes.items():
            if node.skip:
                node.skip -= 1
                continue
            queued = max(node.queued, owed[link])
            full = jobs[link] >= self._config.jobs or queued >= self._config.queue
            if node.draining or full or not node.channels:
                continue
            known = max((common(tokens, prompt) for prompt in node.prompts), default=0)
            found[link] = queued + len(tokens) - known
        return min(found, key=found.__getitem__, default=None)


def common(one: Tokens, other: Tokens) -> int:
    """Tokens that both begin with."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(index for index in range(most) if one[index] != other[index])
