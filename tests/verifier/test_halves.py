"""Two halves of a batch in turn: one is verified while the other is drafted, where that is predicted to be faster.

The world here has a target that counts up, and a drafter that begins when it hears a verdict and is always right. What
a step and an answer take are functions of their sizes, so that the speed of either way can be worked out by hand.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pages import PagePool
from protocol.link import LinkUp, Received
from protocol.messages import (
    AnyMessage,
    DraftClose,
    DraftSync,
    DraftTailStream,
    Limits,
    VerifyCommit,
)
from tests import identities
from tests.verifier.rig import END, Letters, submit
from verifier.admission import Admission
from verifier.config import PlannerConfig, VerifierConfig
from verifier.core import VerifierCore
from verifier.halves import Halves, When
from verifier.planners.fixed import Fixed
from verifier.step import Step, Verdict, Work

FRONT, DRAFTER = 1, 10
COUNT = 90  # the target counts up to here, and begins anew
DRAFTS = 3


def judge(work: Work) -> Verdict:
    if not work.draws:
        return Verdict()
    drawn = [(token + 1) % COUNT for token in work.tokens[len(work.tokens) - work.drafts - 1 :]]
    window = work.tokens[len(work.tokens) - work.drafts :] if work.drafts else ()
    accepted = 0
    while accepted < work.drafts and window[accepted] == drawn[accepted]:
        accepted += 1
    return Verdict(tuple(drawn[: accepted + 1]), accepted)


@dataclass
class World:
    """`verify` says what a step of so many tokens takes, `draft` what guesses for so many requests do."""

    verify: Callable[[int], float]
    draft: Callable[[int], float]
    halves: When
    requests: int = 8
    patience: float = 0.05
    right: Callable[[int], bool] = bool  # whether the guess of this token is right
    now: float = 0.0
    free: float = 0.0  # when the drafter can begin again
    answers: list[tuple[float, DraftTailStream]] = field(default_factory=list)
    steps: list[frozenset[int]] = field(default_factory=list)  # who decoded in each
    able: list[frozenset[int]] = field(default_factory=list)  # who could have
    outputs: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = PlannerConfig(draft_length=DRAFTS, patience=self.patience, halves=self.halves)
        self.core = identities.watched(
            VerifierCore(
                VerifierConfig(model="unused", planner=own),
                Admission(4000, 100, frozenset({END}), "match"),
                PagePool(4096, 16),
                Fixed(own),
                Letters,
            )
        )
        self.core.handle(LinkUp(FRONT, "front", "front", Limits()), 0.0)
        self.core.handle(LinkUp(DRAFTER, "drafter", "drafter", Limits(), "dflash"), 0.0)
        for number in range(1, self.requests + 1):
            asked = submit(number, (number, number + 1, number + 2), max_tokens=2000)
            self.core.handle(Received(FRONT, (asked,)), 0.0)

    def turn(self) -> None:
        """What is due is heard, then a step is made or waited for."""
        for due, row in [each for each in self.answers if each[0] <= self.now]:
            self.answers.remove((due, row))
            self.core.handle(Received(DRAFTER, (row,)), self.now)
        step = self.core.plan(self.now)
        self.tell()
        if step is None:
            self.now = min([due for due, _ in self.answers] + [self.core.deadline(self.now)])
            return
        self.note(step)
        started = self.now
        self.now += self.verify(step.tokens)
        self.core.settle(step, [judge(work) for work in step.rows], started, self.now)
        self.tell()
        self.core.outbox(FRONT)

    def tell(self) -> None:
        """The drafter hears what is said to it, and begins as soon as it is free."""
        told = [each for each in self.core.outbox(DRAFTER) if not isinstance(each, DraftClose)]
        if not told:
            return
        self.free = max(self.now, self.free) + self.draft(len(told))
        self.answers += [(self.free, self.guesses(each)) for each in told]

    def guesses(self, message: AnyMessage) -> DraftTailStream:
        assert isinstance(message, DraftSync | VerifyCommit)
        if isinstance(message, DraftSync):
            known, last = len(message.output), (*message.prompt, *message.output)[-1]
        else:
            known, last = message.start + len(message.tokens), message.tokens[-1]
        ahead = [(last + each) % COUNT for each in range(1, DRAFTS + 1)]
        said = tuple(token if self.right(token) else 97 for token in ahead)
        return DraftTailStream(message.request, message.epoch, known, known, said)

    def note(self, step: Step) -> None:
        decoding = {
            work.request for work in step.rows if work.draws and len(work.tokens) == 1 + work.drafts
        }
        self.steps.append(frozenset(decoding))
        self.able.append(
            frozenset(each.id for each in self.core.scheduler.running if each.output.tokens)
        )

    @property
    def tokens(self) -> int:
        return sum(len(each.output.tokens) for each in self.core.scheduler.running)

    def speed(self, warm: int = 60, turns: int = 300) -> float:
        """Tokens a second, once both sides are known."""
        for _ in range(warm):
            self.turn()
        begun, tokens = self.now, self.tokens
        for _ in range(turns):
            self.turn()
        return (self.tokens - tokens) / (self.now - begun)


def pair(verify: Callable[[int], float], draft: Callable[[int], float]) -> tuple[float, World]:
    """How many times as fast the service is that may take turns, and that service."""
    never, auto = World(verify, draft, "never"), World(verify, draft, "auto")
    ratio = auto.speed() / never.speed()
    return ratio, auto


def step(tokens: int) -> float:
    """Eight plain tokens take 7.2 ms, four windows of four tokens 10.4 ms, eight of them 16.8 ms."""
    return 0.004 + 0.0004 * tokens


def test_where_guessing_takes_as_long_as_half_a_step_nothing_stands_still() -> None:
    """Eight windows, then 10 ms of guessing: 26.8 ms a round. Two times four windows, and guessing beside them."""
    ratio, world = pair(step, lambda _: 0.010)
    assert ratio == pytest.approx(
        26.8 / 20.8, rel=0.05
    )  # now and then it looks whether that is still so
    sizes = Counter(len(each) for each in world.steps[-200:])
    assert sizes[4] > 190


def test_where_a_step_costs_the_same_whatever_is_in_it_all_are_verified_at_once() -> None:
    """A device that is far from full: two steps would take twice as long as one, 40 ms beside 30 ms."""
    ratio, world = pair(lambda _: 0.020, lambda _: 0.010)
    assert ratio == pytest.approx(1.0, rel=0.02)
    assert world.core.drafting.pace.halves.steps < 5  # it had to be tried once


def test_quick_drafters_are_waited_for() -> None:
    ratio, world = pair(step, lambda _: 0.0005)
    assert ratio == pytest.approx(1.0, rel=0.02)
    assert world.core.drafting.pace.halves.steps == 0


def test_slow_drafters_are_given_all_at_once() -> None:
    """Guesses cost 40 ms for any number of requests: in halves there would be 80 ms of them a round."""
    ratio, world = pair(step, lambda _: 0.040)
    assert ratio == pytest.approx(1.0, rel=0.02)
    assert world.core.drafting.pace.halves.steps == 0


def test_guessing_that_takes_longer_than_half_a_step_is_waited_for_by_both_halves() -> None:
    """12 ms of guessing for each half, one after the other: 24 ms a round beside 28.8 ms."""
    ratio, _ = pair(step, lambda _: 0.012)
    assert ratio == pytest.approx(28.8 / 24, rel=0.03)


def test_when_guessing_becomes_quick_halves_become_one_again() -> None:
    took = [0.010]
    world = World(step, lambda _: took[0], "auto")
    world.speed()
    before = world.core.drafting.pace.halves.apart
    took[0] = 0.0005
    world.speed()
    assert (before, world.core.drafting.pace.halves.apart) == (True, False)
    assert len(world.steps[-1]) == 8


def test_one_request_has_no_halves() -> None:
    world = World(lambda _: 0.01, lambda _: 0.01, "always", requests=1)
    world.speed()
    assert world.core.drafting.pace.halves.steps == 0


@given(
    requests=st.integers(2, 9),
    draft=st.floats(0.0001, 0.2),
    patience=st.sampled_from((0.0, 0.002, 0.05)),
    wrong=st.integers(2, 9),
)
def test_nobody_sits_out_twice_in_a_row(
    requests: int, draft: float, patience: float, wrong: int
) -> None:
    """Even where halves are not asked whether they pay; and every output is what the target counts."""
    world = World(
        lambda tokens: 0.001 * tokens,
        lambda _: draft,
        "always",
        requests=requests,
        patience=patience,
        right=lambda token: token % wrong != 0,
    )
    world.speed(warm=0, turns=60)
    for able, earlier, later in zip(world.able, world.steps, world.steps[1:], strict=False):
        assert able <= earlier | later
    for each in world.core.scheduler.running:
        first = each.submit.tokens[-1] + 1
        assert each.output.tokens == [
            (first + place) % COUNT for place in range(len(each.output.tokens))
        ]


def test_a_request_that_is_over_is_not_waited_for_any_more() -> None:
    halves = Halves("always")
    halves.told([1, 2], 0.0)
    halves.forget(1)
    halves.answered(1, 5.0)
    halves.answered(2, 0.5)
    assert halves.left_out([2, 3], [], 0.0) == {3}
