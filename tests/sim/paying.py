"""What drafts bring at every round-trip time, in simulated time: `python -m tests.sim.paying --planner budget`.

A verifier, four requests and one drafter, once with drafts and once without. Only what the mesh and the planner decide
counts here: a step takes what it takes for its tokens, and drafters take nothing from the verifier's processors.
"""

import argparse
import random
import sys
from typing import Final

from tests.sim.steady import BEGIN, SteadyWorld, scenario
from verifier.config import PlannerConfig

TRIPS: Final = (0.0002, 0.001, 0.005, 0.02, 0.05, 0.2)
ACCURACIES: Final = (1.0, 0.8, 0.5, 0.0)
SECONDS: Final = 1.2
LEAST: Final = 0.95
"""Times the speed of plain decoding that is never fallen below, once it is known what drafts bring."""
LEARNED: Final = 1.0
"""Seconds after which that is known."""


def speed(
    planner: str, accuracy: float, trip: float, *, drafts: bool = True, seed: int = 1
) -> float:
    """Tokens a second of all requests, from `LEARNED` on."""
    config = PlannerConfig(name=planner, draft_length=4 if drafts else 0)
    made = scenario(random.Random(seed), config, (0,), accuracy=accuracy)
    world = SteadyWorld(seed, made, {"drafter-0": trip / 3})  # a way takes once to twice as long
    core = world.verifiers["verifier-0"].core

    def tokens() -> int:
        return sum(len(each.output.tokens) for each in core._generations.values())

    world.run(BEGIN + LEARNED)
    before, began = tokens(), world.now
    world.run(began + SECONDS, lambda: len(core._generations) < len(made.fronts["front-0"].asks))
    return (tokens() - before) / (world.now - began)


def gain(planner: str, accuracy: float, trip: float, seed: int = 1) -> float:
    """Times the speed of plain decoding."""
    plain = speed(planner, accuracy, trip, drafts=False, seed=seed)
    return speed(planner, accuracy, trip, seed=seed) / plain


def main() -> int:
    """The exit code is 1 if drafts cost more than they may."""
    parser = argparse.ArgumentParser("python -m tests.sim.paying", description=__doc__)
    parser.add_argument("--planner", default="budget")
    planner = parser.parse_args().planner
    heads = " | ".join(f"{1e3 * trip:g} ms" for trip in TRIPS)
    sys.stdout.write(f"| guesses that are right | {heads} |\n|{' --- |' * (1 + len(TRIPS))}\n")
    least = 1.0
    for accuracy in ACCURACIES:
        gains = [gain(planner, accuracy, trip) for trip in TRIPS]
        least = min(least, *gains)
        cells = " | ".join(f"{each:.2f}" for each in gains)
        sys.stdout.write(f"| {accuracy:g} | {cells} |\n")
        sys.stdout.flush()
    return int(least < LEAST)


if __name__ == "__main__":
    sys.exit(main())
