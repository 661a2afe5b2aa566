"""How long from each fault to drafting again, in simulated time: `python -m tests.sim.recovery --seeds 200`.

A verifier, four long requests, and drafters that are always right. One drafter suffers a fault: either the other one
takes its requests, or there is no other, and the fault is mended after a while. Meanwhile streams must not stall.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Final

from protocol.process import Drain
from tests.sim.breach import holds
from tests.sim.roles import DrafterPlace, VerifierPlace
from tests.sim.scenario import BEAT
from tests.sim.steady import BEGIN, SILENCE, STEP, TOKEN, SteadyWorld, scenario
from tests.sim.weather import Disturbance
from verifier.config import PlannerConfig
from verifier.drafting import TOO_LONG
from verifier.generation import Generation
from verifier.roster import FIRST_WAIT

SEED: Final = 20_000
SHORT: Final = 120
"""Prompt and output that the victim drafts for, where that is the fault."""
STALL: Final = 0.1
"""Seconds between two tokens of a stream at most, whatever happens to its drafter: a step, and the longest patience."""
DOWN: Final = 1.2
"""Seconds until a fault is mended: longer than silence."""
MARGIN: Final = 0.15
"""Seconds for the steps, ways and turns that are part of every answer."""


@dataclass(frozen=True)
class Fault:
    """`strike` makes it, `mend` takes it back; bounds are seconds until drafting again, from each of the two."""

    strike: Callable[["Rig"], None]
    moved: float
    mend: Callable[["Rig"], None] | None = None
    back: float = 0.0
    context: int = 0


class Rig(SteadyWorld):
    """The victim is the first drafter; the other one is as near, or further, so that some begin with the victim."""

    def __init__(self, seed: int, fault: Fault, *, other: bool) -> None:
        rng = random.Random(seed)
        planner = PlannerConfig(name="fixed", draft_length=2)
        ways = {"drafter-0": rng.choice((0.0002, 0.001, 0.004)), "drafter-1": 0.004}
        contexts = (fault.context, 0) if other else (fault.context,)
        super().__init__(seed, scenario(rng, planner, contexts), ways)

    @property
    def victim(self) -> DrafterPlace:
        return self.drafters["drafter-0"]

    @property
    def verifier(self) -> VerifierPlace:
        return self.verifiers["verifier-0"]

    def bound(self) -> list[Generation]:
        """Requests that the victim drafts for."""
        return [
            each
            for each in self.verifier.core._generations.values()
            if each.binding and each.binding.drafter.node_id == self.victim.address
        ]


# --- faults, and what mends them ------------------------------------------------------------------------


def _kill(rig: Rig) -> None:
    rig.victim.stop()


def _start(rig: Rig) -> None:
    rig.victim.gone = False
    rig.victim.start()


def _freeze(rig: Rig) -> None:
    rig.victim.frozen_until = float("inf")


def _thaw(rig: Rig) -> None:
    rig.victim.frozen_until = 0.0


def _cut(rig: Rig) -> None:
    ends = rig.verifier.address, rig.victim.address
    for source, target in (ends, ends[::-1]):
        rig.weather.disturb(Disturbance(source, target, float("inf"), loss=1.0))


def _join(rig: Rig) -> None:
    rig.weather.clear()


def _drain(rig: Rig) -> None:
    assert rig.victim.node is not None
    rig.victim.gone = True  # until it is started again
    rig.victim.node.command(Drain())


def _refuse(rig: Rig) -> None:
    """It has no place any more, for what is there neither, as when others need it more."""
    core, now = rig.victim.core, rig.victim.clock()
    for mirror in [each for mirrors in core._mirrors.values() for each in mirrors.values()]:
        core._close(mirror, "shared", now)
        core._refuse(mirror.link, mirror.request, mirror.epoch, "full", "no place")
    core._config = core._config.model_copy(update={"max_requests": 0})


def _accept(rig: Rig) -> None:
    core = rig.victim.core
    core._config = core._config.model_copy(update={"max_requests": 1024})


def _pace(rig: Rig, seconds: float) -> None:
    proposer = rig.victim.proposer
    proposer.profile = replace(proposer.profile, pace=seconds)


def _fill(rig: Rig) -> None:
    """Nothing but time: the fault is there when the first of its requests has outgrown it."""
    unbound = rig.verifier.core.drafting.unbindings
    holds(rig.run(rig.now + 10, lambda: unbound["context"] > 0), "no request outgrew the drafter")


AWAY: Final = max(TOO_LONG, 16 * (STEP + 4 * TOKEN))
"""Seconds after which a request leaves a drafter that does not answer for one that may."""
FAULTS: Final[Mapping[str, Fault]] = {
    "killed": Fault(_kill, AWAY + MARGIN, _start, 2 * BEAT + MARGIN),
    "frozen": Fault(_freeze, AWAY + MARGIN, _thaw, 2 * BEAT + MARGIN),
    "unreachable": Fault(_cut, AWAY + MARGIN, _join, SILENCE + BEAT + MARGIN),
    "draining": Fault(_drain, MARGIN, _start, 2 * BEAT + MARGIN),
    "refusing": Fault(_refuse, MARGIN, _accept, 2 * (DOWN + FIRST_WAIT) + MARGIN),
    "too slow": Fault(partial(_pace, seconds=0.7), AWAY + 0.7 + MARGIN, partial(_pace, seconds=0.0), 0.7 + MARGIN),
    "context limit": Fault(_fill, MARGIN, context=SHORT),
}  # fmt: skip


# --- what is measured ------------------------------------------------------------------------------------


@dataclass
class Watch:
    """One request from a fault on: `drafted_at` is when a guess of a later mirror (or any, if `same`) was accepted."""

    generation: Generation
    since: float
    same: bool
    drafted_at: float | None = None
    stall: float = 0.0
    _epoch: int = field(init=False)
    _accepted: int = field(init=False)
    _grown: tuple[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self._epoch = self.generation.epoch
        self._accepted = self.generation.accepted
        self._grown = len(self.generation.line), self.since

    def look(self, now: float) -> bool:
        """Whether it is drafted for again."""
        generation = self.generation
        size, at = self._grown
        if len(generation.line) > size:
            self.stall = max(self.stall, now - at)
            self._grown = len(generation.line), now
        if not self.same and generation.epoch == self._epoch:
            self._accepted = generation.accepted  # what was under way when it struck
        elif generation.accepted > self._accepted and self.drafted_at is None:
            self.drafted_at = now
        return self.drafted_at is not None


@dataclass(frozen=True)
class Recovery:
    """Seconds until every request was drafted for again, and the longest time between two tokens meanwhile."""

    seconds: float
    stall: float


def recovery(fault: Fault, seed: int, *, other: bool) -> Recovery:
    """One fault at a moment that the seed chooses; a Breach if streams end or drafts never come back."""
    rig = Rig(seed, fault, other=other)
    rig.run(BEGIN + 0.15 + 0.2 * rig.rng.random())
    victims = rig.bound()
    holds(victims and all(each.accepted for each in victims), "nothing is drafted before the fault")
    fault.strike(rig)
    watches = [Watch(each, rig.now, same=False) for each in victims]
    stalls = [0.0]
    if not other:
        assert fault.mend is not None
        _look(rig, watches, DOWN)
        holds(not any(each.drafted_at for each in watches), "somebody drafts")
        stalls += [each.stall for each in watches]
        fault.mend(rig)
        watches = [Watch(each, rig.now, same=True) for each in victims]
    begun = rig.now
    holds(_look(rig, watches, 10.0), "no drafts within ten seconds")
    stalls += [each.stall for each in watches]
    return Recovery(max(each.drafted_at or begun for each in watches) - begun, max(stalls))


def _look(rig: Rig, watches: Sequence[Watch], seconds: float) -> bool:
    """Let time pass until all are drafted for again; False if that took longer."""
    count = len(watches)  # every one of them looks every time
    return rig.run(rig.now + seconds, lambda: sum(each.look(rig.now) for each in watches) == count)


def cases() -> list[tuple[str, bool]]:
    """Every fault with another drafter beside the victim, and alone where it can be mended."""
    return [
        (name, other)
        for name, fault in FAULTS.items()
        for other in ((True, False) if fault.mend else (True,))
    ]


def bound(name: str, *, other: bool) -> float:
    """Seconds within which requests are drafted for again."""
    return FAULTS[name].moved if other else FAULTS[name].back


def table(seeds: int) -> tuple[list[str], bool]:
    """A row for each fault; whether all bounds were kept."""
    lines = [
        "| drafter | another is there, s | alone, s after it is back | longest wait for a token, ms |",
        "| --- | --- | --- | --- |",
    ]
    kept = True
    for name, fault in FAULTS.items():
        cells, stall = [], 0.0
        for other in islice((True, False), 2 if fault.mend else 1):
            found = [recovery(fault, SEED + seed, other=other) for seed in range(seeds)]
            longest, most = max(each.seconds for each in found), bound(name, other=other)
            stall = max(stall, *(each.stall for each in found))
            middle = median(each.seconds for each in found)
            cells.append(f"{middle:.2f}, at most {longest:.2f} (bound {most:.2f})")
            kept = kept and longest <= most
        cells += ["never: it will not fit again"] * (2 - len(cells))
        kept = kept and stall <= STALL
        lines.append(f"| {name} | {' | '.join(cells)} | {1e3 * stall:.0f} |")
    return lines, kept


def main() -> int:
    """The exit code is 1 if a bound was not kept."""
    parser = argparse.ArgumentParser("python -m tests.sim.recovery", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    lines, kept = table(parser.parse_args().seeds)
    sys.stdout.write("\n".join(lines) + "\n")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
