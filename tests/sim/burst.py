"""Two long answers, a crowd of short ones for a while, and the two alone again, in simulated time."""

import random
from typing import Final, NamedTuple

from protocol.messages import Ending, Submit
from tests.sim.asks import Ask
from tests.sim.steady import BEGIN, SteadyWorld, scenario
from verifier.config import PlannerConfig

OLD: Final = 2
CROWD: Final = 32
SHORT: Final = 24
"""Tokens of a short answer."""
EVERY: Final = 0.5
"""Seconds after which a crowd comes: the one before has just been answered."""
CALM: Final = 2.0
LEARNED: Final = 1.0
"""Seconds at the beginning of a calm part that are not looked at."""
MOST: Final = 560
"""Tokens a second of the old answers together at the most: their context is to hold the whole story."""


class Part(NamedTuple):
    """A part of the story: tokens a second of the old answers, their accepted drafts a round, and changes a minute
    between drafting and resting.
    """

    speed: float
    accepted: float
    changes: float


class Counted(NamedTuple):
    """Of the old answers, up to a moment; and changes of everybody."""

    tokens: int
    rounds: int
    accepted: int
    changes: float


def story(planner: str, accuracy: float, burst: float, seed: int = 1) -> tuple[Part, Part, Part]:
    """Before, in the middle of, and after a crowd that keeps coming for `burst` seconds."""
    config = PlannerConfig(name=planner, draft_length=4)
    seconds = LEARNED + CALM + burst + EVERY + LEARNED + CALM
    context = 1 << int(MOST / OLD * seconds).bit_length()
    made = scenario(
        random.Random(seed), config, (0,), accuracy=accuracy, requests=OLD, running=OLD + CROWD, context=context
    )  # fmt: skip
    crowds = int(burst / EVERY)
    made.fronts["front-0"].asks.extend(
        Ask(
            Submit(OLD + 1 + number, (5, 6, 7), Ending(SHORT, ignore_eos=True)),
            BEGIN + LEARNED + CALM + EVERY * (number // CROWD),
        )
        for number in range(CROWD * crowds)
    )
    world = SteadyWorld(seed, made, {"drafter-0": 0.0002})
    core = world.verifiers["verifier-0"].core

    def counted() -> Counted:
        old = [each for each in core._generations.values() if each.submit.request <= OLD]
        assert len(old) == OLD
        return Counted(
            sum(len(each.output.tokens) for each in old),
            sum(each.rounds for each in old),
            sum(each.accepted for each in old),
            core.record.ledger._turns,
        )

    def part(pause: float, seconds: float) -> Part:
        world.run(world.now + pause)
        before, began = counted(), world.now
        world.run(began + seconds)
        tokens, rounds, accepted, changes = (
            now - then for now, then in zip(counted(), before, strict=True)
        )
        took = world.now - began
        return Part(tokens / took, accepted / rounds, 60 * changes / took)

    return part(LEARNED, CALM), part(0.0, burst), part(EVERY + LEARNED, CALM)
