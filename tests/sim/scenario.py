"""What a history is about, drawn from its seed: who is there, how they are set, what is asked."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from drafter.config import DrafterConfig
from kvtransfer.config import HandoverConfig
from protocol.config import LinkConfig
from protocol.messages import Ending, Sampling, Submit
from tests.sim.asks import Ask
from tests.sim.proposer import Profile
from verifier.config import FeaturesConfig, PlannerConfig, SchedulerConfig, VerifierConfig
from verifier.planners import PLANNERS

CONTEXT: Final = 64
BEAT: Final = 0.3
ROOMY: Final = 4096
STOPS: Final = ("aba", "cb", "cca", "bc", "abcab", "ccc")


class Mode(StrEnum):
    """Which faults may come."""

    CALM = "calm"  # none
    GENTLE = "gentle"  # drafters and the way to them: no request may fail
    WILD = "wild"  # anything


class Nature(StrEnum):
    """What is at a drafter's address."""

    HONEST = "honest"
    LIAR = "liar"
    ABSENT = "absent"  # listed, but nobody was ever there


@dataclass(frozen=True, slots=True)
class DrafterSketch:
    """One drafter; `manners` is for liars, the rest for the honest."""

    nature: Nature
    config: DrafterConfig
    profile: Profile
    manners: float


@dataclass(frozen=True, slots=True)
class FrontSketch:
    """One front door: the real one or the plain client, and what it asks."""

    real: bool
    asks: list[Ask]


@dataclass(frozen=True, slots=True)
class PrefillSketch:
    """One prefill node. `piece` is how many bytes a chunk has at most: one position of one layer is 8."""

    page_size: int
    pages: int
    piece: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that is fixed before the first turn. `storm` is when faults end; `room`: no submission finds a full house."""

    mode: Mode
    verifiers: Mapping[str, VerifierConfig]
    drafters: Mapping[str, DrafterSketch]
    prefill: Mapping[str, PrefillSketch]
    fronts: Mapping[str, FrontSketch]
    links: Mapping[str, LinkConfig]
    vocabulary: int
    slowness: float  # of the target's forward
    pages: int
    bound: int
    storm: float
    context: int = CONTEXT

    @property
    def addresses(self) -> list[str]:
        return [*self.verifiers, *self.drafters, *self.prefill, *self.fronts]


NAMES: Final = ("fixed",) * len(PLANNERS) + tuple(PLANNERS)
"""Planners, half of them the one that never lets a drafter rest."""


def invent(rng: random.Random) -> Scenario:
    """A scenario for this seed."""
    mode = rng.choices(list(Mode), (20, 20, 60))[0]
    verifiers = [
        f"verifier-{index}" for index in range(rng.choices((1, 2, 3, 4), (68, 28, 2, 2))[0])
    ]
    drafters = [
        f"drafter-{index}"
        for index in range(rng.choices((0, 1, 2, 3, 5, 8), (5, 39, 37, 15, 2, 2))[0])
    ]
    fronts = [f"front-{index}" for index in range(rng.choices((1, 2), (7, 3))[0])]
    storm = rng.uniform(0.8, 2.5)
    page_size = rng.choice((2, 4, 8))
    pages = CONTEXT // page_size * rng.choice((1, 1, 1, 2, 4)) + rng.randint(0, 3)
    config = _verifier(rng, page_size)
    # Nothing is drawn for these from the common source: seeds stay what they were.
    rule = ("match", "ratio", "block", "threshold")[pages % 4]
    drawn = round(1e6 * storm)
    named = config.planner.model_copy(
        update={"name": NAMES[drawn % len(NAMES)], "halves": ("auto", "always")[drawn // 8 % 2]}
    )
    aside = random.Random(f"prefill {storm}")
    prefill = _prefill(aside)
    handover = _handover(aside) if prefill else config.handover
    config = config.model_copy(update={"rule": rule, "planner": named, "handover": handover})
    frames = rng.choice((2, 3, 8, 64))
    links = {
        address: LinkConfig(beat=BEAT, silence=rng.choice((0.9, 0.9, 1.8)), window_frames=frames)
        for address in (*verifiers, *drafters, *fronts)
    }
    vocabulary = rng.choice((3, 8, 40))
    letters = rng.choice((vocabulary, 2))
    if rng.random() < 0.2:  # one of them is less patient than all others
        hasty = rng.choice(list(links))
        for address, each in links.items():
            silence = 0.9 if address == hasty else 1.8
            links[address] = each.model_copy(update={"silence": silence})
    patient = max(each.silence for each in links.values())
    links |= {
        address: LinkConfig(beat=BEAT, silence=patient, window_frames=frames) for address in prefill
    }
    prompts = [tuple(rng.randrange(letters) for _ in range(rng.randint(1, 20))) for _ in range(3)]
    return Scenario(
        mode=mode,
        verifiers=dict.fromkeys(verifiers, config),
        drafters={address: _drafter(rng, address) for address in drafters},
        prefill=prefill,
        fronts={
            address: _front(rng, _asks(rng, vocabulary, prompts, config, storm))
            for address in fronts
        },
        links=links,
        vocabulary=vocabulary,
        slowness=rng.choice((1.0, 1.0, 1.0, 1.0, 4.0)),
        pages=pages,
        bound=ROOMY if mode is Mode.GENTLE else rng.choice((ROOMY, ROOMY, 16, 5)),
        storm=storm,
    )


def _verifier(rng: random.Random, page_size: int) -> VerifierConfig:
    return VerifierConfig(
        model=Path("hash"),
        page_size=page_size,
        features=FeaturesConfig(recent=rng.choice((0, 0, 0, 5))),
        planner=PlannerConfig(
            draft_length=rng.choice((0, 1, 2, 3, 4, 8, 8)),
            patience=rng.choice((0.0, 0.002, 0.02, 0.02)),
        ),
        scheduler=SchedulerConfig(
            max_running=rng.choice((1, 3, 6, 16)),
            max_waiting=rng.choice((9, 80, 80, 80)),
            max_chunk=rng.choice((16, 16, 32, 128)),
        ),
    )


def _prefill(rng: random.Random) -> dict[str, PrefillSketch]:
    """In a third of all histories there are some."""
    found = {}
    for index in range(rng.choices((0, 1, 2), (4, 1, 1))[0]):
        size = rng.choice((2, 4, 8))
        pages = CONTEXT // size * rng.choice((1, 1, 4))
        found[f"prefill-{index}"] = PrefillSketch(size, pages, rng.choice((8, 24, 64, 400)))
    return found


def _handover(rng: random.Random) -> HandoverConfig:
    return HandoverConfig(
        least=rng.choice((1, 1, 2, 6)),
        jobs=rng.choice((1, 2, 8)),
        queue=rng.choice((8, 64)),
        accept_seconds=rng.choice((0.05, 0.5, 0.5)),
        move_seconds=rng.choice((0.05, 0.5, 0.5)),
        whole_seconds=rng.choice((0.2, 3.0, 3.0)),
    )


def _drafter(rng: random.Random, address: str) -> DrafterSketch:
    config = DrafterConfig(
        node_id=address,
        method="scripted",
        max_ahead=rng.choice((64, 64, 64, 64, 4, 1, 0)),
        max_requests=rng.choice((1024, 1024, 1024, 2, 1)),
        context=rng.choice((0, 0, 0, 30)),
    )
    profile = Profile(
        salt=rng.getrandbits(40),
        accuracy=rng.choice((0.0, 0.6, 0.8, 0.9, 0.9, 1.0, 1.0)),
        redrafts=rng.choice((0.0, 0.0, 0.2)),
        short=rng.choice((0.0, 0.0, 0.3)),
        pending=rng.choice((0.0, 0.0, 0.3)),
        features=rng.random() < 0.3,
        pace=rng.choice((0.0, 0.0, 0.0, 0.01, 0.1)),
    )
    nature = rng.choices(list(Nature), (78, 15, 7))[0]
    return DrafterSketch(nature, config, profile, rng.choice((0.1, 0.5, 0.9)))


def _front(rng: random.Random, asks: list[Ask]) -> FrontSketch:
    real = rng.random() < 0.5
    if real:  # no deadline: its clients have no way to say one
        for ask in asks:
            ask.submit = replace(ask.submit, deadline=None)
    return FrontSketch(real, asks)


def _asks(
    rng: random.Random,
    vocabulary: int,
    prompts: list[tuple[int, ...]],
    config: VerifierConfig,
    storm: float,
) -> list[Ask]:
    count, spread = rng.randint(3, 8), rng.choice((storm, storm, 0.02))
    return [
        _ask(
            number + 1,
            rng=rng,
            vocabulary=vocabulary,
            prompts=prompts,
            config=config,
            spread=spread,
        )
        for number in range(count)
    ]


def _ask(
    number: int,
    *,
    rng: random.Random,
    vocabulary: int,
    prompts: list[tuple[int, ...]],
    config: VerifierConfig,
    spread: float,
) -> Ask:
    base = rng.choice(prompts)
    prompt = base[: rng.randint(1, len(base))] + _tokens(rng, vocabulary, rng.choice((0, 0, 1, 3)))
    max_tokens = rng.choice((1, 2, 5, 12, 20, 40, 40))
    refusals = set()
    if config.scheduler.max_running + config.scheduler.max_waiting < 60:
        refusals.add("full")
    if rng.random() < 0.04:
        prompt, max_tokens = rng.choice((((), 3), ((vocabulary,), 3), (prompt, CONTEXT)))
        refusals.add("invalid")
    submit = Submit(
        request=number,
        tokens=prompt,
        ending=_ending(rng, vocabulary, max_tokens),
        sampling=Sampling(temperature=rng.choice((0.0, 0.0, 0.8)), seed=rng.getrandbits(64)),
        choices=rng.choice((1, 1, 1, 2, 3)),
        priority=rng.choice((0, 0, 0, 5, -5)),
        deadline=rng.uniform(0.01, 0.6) if rng.random() < 0.15 else None,
    )
    begin = rng.uniform(0.0, spread)
    cancel = begin + rng.uniform(0.0, 0.5) if rng.random() < 0.15 else float("inf")
    return Ask(submit, begin, cancel, frozenset(refusals))


def _ending(rng: random.Random, vocabulary: int, max_tokens: int) -> Ending:
    return Ending(
        max_tokens=max_tokens,
        min_tokens=rng.choice((0, 0, 0, 4, 12)),
        ignore_eos=rng.random() < 0.6,
        stop=tuple(rng.sample(STOPS, rng.choice((0, 0, 0, 1, 2)))),
        stop_token_ids=_tokens(rng, vocabulary - 1, rng.choice((0, 0, 0, 0, 2))),  # never all,
        include_stop=rng.random() < 0.3,
    )


def probe(number: int, rng: random.Random, vocabulary: int) -> Submit:
    """A request that any good drafter must be able to help with."""
    return Submit(number, _tokens(rng, vocabulary, 3), Ending(24, ignore_eos=True))


def _tokens(rng: random.Random, vocabulary: int, size: int) -> tuple[int, ...]:
    return tuple(rng.randrange(vocabulary) for _ in range(size))
