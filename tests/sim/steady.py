"""A world without weather, where steps of the target take what a step takes: for what is measured in simulated time."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from drafter.config import DrafterConfig
from protocol.config import LinkConfig
from protocol.messages import Ending, Submit
from tests.sim.asks import Ask
from tests.sim.proposer import Profile
from tests.sim.scenario import (
    BEAT,
    ROOMY,
    DrafterSketch,
    FrontSketch,
    Mode,
    Nature,
    Scenario,
)
from tests.sim.weather import on_grid
from tests.sim.world import World
from verifier.config import PlannerConfig, SchedulerConfig, VerifierConfig

SILENCE: Final = 0.9
BEGIN: Final = 1.5
"""All links are up by then, and requests begin."""
CONTEXT: Final = 1024
STEP: Final = 0.01
TOKEN: Final = 0.0002


class SteadyWorld(World):
    """One verifier; `ways` are the seconds to each drafter, one way."""

    def __init__(self, seed: int, scenario: Scenario, ways: Mapping[str, float]) -> None:
        super().__init__(seed, scenario=scenario)
        for drafter, way in ways.items():
            ends = "verifier-0", drafter
            self.weather._latency.update({ends: way, ends[::-1]: way})
        self.run(BEGIN)
        for place in self.places:
            self.taint(place.address)

    def forward(self, tokens: int) -> None:
        self._ahead += on_grid(STEP + TOKEN * tokens)


def scenario(
    rng: random.Random,
    planner: PlannerConfig,
    contexts: Sequence[int],
    *,
    accuracy: float = 1.0,
    requests: int = 4,
    running: int = 16,
    context: int = CONTEXT,
) -> Scenario:
    """As many long requests, and a drafter for each of these contexts (0: any length)."""
    verifier = VerifierConfig(
        model=Path("hash"),
        page_size=8,
        planner=planner,
        scheduler=SchedulerConfig(max_running=running, max_waiting=80, max_chunk=128),
    )
    drafters = {
        f"drafter-{number}": DrafterSketch(
            Nature.HONEST,
            DrafterConfig(node_id=f"drafter-{number}", method="scripted", context=context),
            Profile(salt=rng.getrandbits(40), accuracy=accuracy),
            manners=1.0,
        )
        for number, context in enumerate(contexts)
    }
    asks = [
        Ask(Submit(number, (5, 6, 7), Ending(context - 10, ignore_eos=True)), BEGIN)
        for number in range(1, requests + 1)
    ]
    return Scenario(
        mode=Mode.WILD,
        verifiers={"verifier-0": verifier},
        drafters=drafters,
        prefill={},
        fronts={"front-0": FrontSketch(real=False, asks=asks)},
        links={
            each: LinkConfig(beat=BEAT, silence=SILENCE)
            for each in ("verifier-0", "front-0", *drafters)
        },
        vocabulary=40,
        slowness=1.0,
        pages=max(requests, running // 4) * context // 8,
        bound=ROOMY,
        storm=BEGIN,
        context=context,
    )
