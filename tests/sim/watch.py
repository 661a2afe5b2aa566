"""The verifier's drafting under observation: what it did, and that what is fenced off changes nothing."""

from collections import Counter
from collections.abc import Callable, Iterator
from math import log2

from protocol.messages import AnyMessage, DraftSync, DraftTailStream, Refuse
from tests.sim.breach import holds
from verifier.acceptance import Slices
from verifier.drafting import Drafting
from verifier.generation import Generation
from verifier.planner import Planner
from verifier.roster import FIRST_WAIT


class WatchedDrafting(Drafting):
    """`faulted` lists the node ids of drafters that were taken for faulty, `syncs` the times of every `DraftSync`."""

    def __init__(
        self,
        planner: Planner,
        vocabulary: int,
        counters: Counter[str],
        clock: Callable[[], float],
        slices: Slices,
    ) -> None:
        super().__init__(planner, vocabulary, counters, slices)
        self.faulted: list[str] = []
        self.syncs: dict[tuple[int, int], list[float]] = {}  # by (request, link)
        self._epochs: dict[int, int] = {}  # request: the newest epoch that was said
        self._clock = clock

    def unbind(self, generation: Generation, reason: str) -> None:
        if reason == "fault" and generation.binding is not None:
            self.faulted.append(generation.binding.drafter.node_id)
        super().unbind(generation, reason)

    def tell(self, generation: Generation) -> Iterator[AnyMessage]:
        for message in super().tell(generation):
            if isinstance(message, DraftSync) and generation.binding is not None:
                self._opened(message, generation.binding.drafter.link)
            yield message

    def _opened(self, sync: DraftSync, link: int) -> None:
        """Epochs rise; each refusal doubles the wait before the next `DraftSync` on the same link."""
        holds(sync.epoch > self._epochs.get(sync.request, 0), "an epoch again:", sync)
        self._epochs[sync.request] = sync.epoch
        times = self.syncs.setdefault((sync.request, link), [])
        times.append(self._clock())
        most = 1 + log2(1 + (times[-1] - times[0]) / FIRST_WAIT)
        holds(
            len(times) <= most, len(times), "DraftSyncs of", sync.request, "on one link at", times
        )

    def row(self, link: int, row: DraftTailStream, known: Generation | None, now: float) -> None:
        before = _fenced(link, row.epoch, known)
        super().row(link, row, known, now)
        holds(before == _fenced(link, row.epoch, known), "a stale row was taken:", row)

    def refused(self, link: int, refuse: Refuse, known: Generation | None, now: float) -> None:
        before = _fenced(link, refuse.epoch, known)
        super().refused(link, refuse, known, now)
        holds(before == _fenced(link, refuse.epoch, known), "a stale refusal was obeyed:", refuse)


def _fenced(link: int, epoch: int, known: Generation | None) -> object:
    """What a message of this link and epoch must not change; None where it may speak."""
    if known is None or known.binding is None:
        return None
    binding = known.binding
    if (binding.drafter.link, binding.epoch) == (link, epoch):
        return None
    tail = binding.tail
    return (binding.drafter.link, binding.epoch, tail.agreed, tail.base, *tail.ahead)
