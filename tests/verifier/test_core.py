"""The verifier's core, told as stories: events of links in, steps and messages out.

The target's next token is always the last one plus one, so that a right draft is easy to see. The front door has link
1; drafters have links 10, 11, ...
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from engine.pages import PagePool
from protocol.link import LinkDown, LinkUp, Received, Rejected
from protocol.messages import (
    Abort,
    AnyMessage,
    CorpusList,
    Done,
    DraftClose,
    DraftSync,
    DraftTailStream,
    Emit,
    Heartbeat,
    Limits,
    Refuse,
    Reset,
    Sampling,
    Statistics,
    VerifyCommit,
)
from tests import identities
from tests.verifier.rig import END, VOCABULARY, Letters, judge, submit, tokens
from verifier.admission import Admission
from verifier.commit import Detokenizer, Timed
from verifier.config import PlannerConfig, SchedulerConfig, VerifierConfig
from verifier.core import VerifierCore
from verifier.handover import Supply
from verifier.planner import Outcome, Planner
from verifier.planners import PLANNERS
from verifier.planners.fixed import Fixed
from verifier.step import Step
from verifier.traces import Traces

FRONT, DRAFTER, SECOND = 1, 10, 11


class Rig:
    """A core with a target that counts up, a clock, and links that are read only when a story reads them."""

    def __init__(
        self,
        *drafters: Limits,
        draft_length: int = 3,
        patience: float = 0.0,
        pages: int = 64,
        context: int = 40,
        rule: str = "match",
        planner: Planner | None = None,
        traces: Traces | None = None,
        supply: Supply | None = None,
        timed: Callable[[Detokenizer], Timed] | None = None,
        **scheduler: Any,
    ) -> None:
        self.now = 0.0
        self.pages = pages
        own = PlannerConfig(draft_length=draft_length, patience=patience)
        config = VerifierConfig(model="unused", planner=own, scheduler=SchedulerConfig(**scheduler))
        self.core = identities.watched(
            VerifierCore(
                config,
                Admission(context, VOCABULARY, frozenset({END}), rule),
                PagePool(pages, 4),
                planner or PLANNERS["fixed"](own),
                Letters,
                traces=traces,
                supply=supply,
                timed=timed,
            )
        )
        self.up(FRONT, "front")
        for link, limits in enumerate(drafters, DRAFTER):
            self.up(link, "drafter", limits)

    def up(self, link: int, role: str, limits: Limits = Limits()) -> None:
        self.core.handle(LinkUp(link, role, f"{role}-{link}", limits, "ngram"), self.now)

    def down(self, link: int) -> None:
        self.core.handle(LinkDown(link, "gap"), self.now)

    def hear(self, link: int, *messages: AnyMessage) -> None:
        self.core.handle(Received(link, messages), self.now)

    def submit(self, request: int = 1, tokens: Sequence[int] = (1, 2, 3), **fields: Any) -> None:
        self.hear(FRONT, submit(request, tokens, **fields))

    def tail(self, base: int, start: int, *tokens: int, request: int = 1, epoch: int = 1) -> None:
        """The first drafter's row."""
        self.hear(DRAFTER, DraftTailStream(request, epoch, base, start, tokens))

    def says(self, link: int) -> list[AnyMessage]:
        return self.core.outbox(link)

    def step(self, seconds: float = 0.01) -> list[tuple[int, ...]]:
        """One forward; the tokens of its rows. Nothing planned: no rows."""
        step = self.core.plan(self.now)
        if step is None:
            return []
        self.finish(step, seconds)
        return [row.tokens for row in step.rows]

    def finish(self, step: Step, seconds: float = 0.01) -> None:
        started = self.now
        self.now += seconds
        self.core.settle(step, [judge(work) for work in step.rows], started, self.now)
        self.check()

    def turn(self) -> list[AnyMessage]:
        """One forward, and what the front door hears of it."""
        self.step()
        return self.says(FRONT)

    def run(self, steps: int = 100) -> list[AnyMessage]:
        """Step until nothing is left to do; everything that the front door hears."""
        heard: list[AnyMessage] = []
        for _ in range(steps):
            heard += self.turn()
        assert self.core.plan(self.now) is None
        return heard

    def check(self) -> None:
        """What must hold after every step."""
        core = self.core
        identities.check(core.facts())
        generations = list(core._generations.values())
        held = {page for each in generations if each.sequence for page in each.sequence.pages}
        assert core.scheduler.pool.free + len(held) == self.pages
        for link in (DRAFTER, SECOND):
            drafter = core.drafting.roster.get(link)
            if drafter is not None:
                bound = [
                    each for each in generations if each.binding and each.binding.drafter is drafter
                ]
                assert drafter.bound == len(bound)
        for each in generations:
            assert 0 <= each.accepted <= each.drafted
            assert len(each.output.tokens) == each.accepted + each.rounds
            assert each.line == [*each.submit.tokens, *each.output.tokens]

    @property
    def empty(self) -> bool:
        """Whether nothing is left of any request."""
        core = self.core
        return (
            not core._generations
            and not core.fronts._choices
            and len(core.scheduler) == 0
            and core.scheduler.pool.free == self.pages
        )


def text(messages: Sequence[AnyMessage]) -> str:
    return "".join(each.text for each in messages if isinstance(each, Emit))


def done(messages: Sequence[AnyMessage]) -> Done:
    [last] = [each for each in messages if isinstance(each, Done)]
    return last


# --- a request without a drafter --------------------------------------------------------------------------------------


def test_a_request_is_answered_token_by_token_and_ends_once() -> None:
    rig = Rig()
    rig.submit(max_tokens=3)
    heard = []
    for expected in ([(1, 2, 3)], [(4,)], [(5,)]):
        assert rig.step() == expected
        heard.append(rig.says(FRONT))
    assert heard == [
        [Emit(1, 0, (4,), "e", (False,))],
        [Emit(1, 0, (5,), "f", (False,))],
        [
            Emit(1, 0, (6,), "g", (False,)),
            Done(1, 0, "length", 3, 3, Statistics(3, history=((0, 0, 3),))),
        ],
    ]
    assert (rig.step(), rig.empty, rig.core.idle) == ([], True, True)


def test_a_front_door_that_reads_late_hears_all_of_it_in_one_message() -> None:
    rig = Rig()
    rig.submit(max_tokens=3)
    for _ in range(3):
        rig.step()
    assert rig.says(FRONT) == [
        Emit(1, 0, (4, 5, 6), "efg", (False, False, False)),
        Done(1, 0, "length", 3, 3, Statistics(3, history=((0, 0, 3),))),
    ]
    assert rig.says(FRONT) == []


def test_several_requests_share_a_step_and_end_each_on_its_own() -> None:
    rig = Rig()
    rig.submit(1, [1, 2], max_tokens=2)
    rig.submit(2, [50], max_tokens=3)
    assert [rig.step() for _ in range(4)] == [[(1, 2), (50,)], [(3,), (51,)], [(52,)], []]
    assert rig.empty


def test_choices_are_independent_and_end_one_by_one() -> None:
    rig = Rig()
    rig.submit(choices=3, max_tokens=2)
    heard = rig.run(5)
    assert sorted(each.choice for each in heard if isinstance(each, Done)) == [0, 1, 2]
    assert tokens(heard) == [4, 4, 4, 5, 5, 5]


def test_the_same_number_from_two_front_doors_is_two_requests() -> None:
    rig = Rig()
    rig.up(2, "front")
    rig.submit(7, [1], max_tokens=1)
    rig.hear(2, submit(7, [20], max_tokens=1))
    rig.step()
    assert (tokens(rig.says(FRONT)), tokens(rig.says(2))) == ([2], [21])


def test_a_stop_text_is_held_back_and_never_shown() -> None:
    rig = Rig()
    rig.submit(max_tokens=9, stop=("gh",))
    heard = rig.run(6)
    assert [each.text for each in heard if isinstance(each, Emit)] == ["e", "f", "", ""]
    assert (text(heard), tokens(heard), done(heard).reason) == ("ef", [4, 5, 6, 7], "stop")


def test_a_request_that_lost_its_pages_goes_on_with_the_same_text() -> None:
    rig = Rig(pages=8, context=30)
    for request in (1, 2):
        rig.submit(request, [request * 30 + place for place in range(10)], max_tokens=12)
    heard = rig.run(60)
    assert rig.core.scheduler.preemptions > 0
    for request in (1, 2):
        mine = [each for each in heard if isinstance(each, Emit) and each.request == request]
        assert tokens(mine) == [request * 30 + place for place in range(10, 22)]
    assert rig.empty


# --- drafts -------------------------------------------------------------------------------------------------------


def test_a_bound_request_opens_a_mirror_uses_drafts_and_tells_what_was_committed() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=9, sampling=Sampling(seed=4), trace="tr")
    rig.core.plan(rig.now)
    assert rig.says(DRAFTER) == [
        DraftSync(1, 1, (1, 2, 3), (), 7, Sampling(seed=4), trace="tr"),
    ]
    rig.tail(0, 0, 4, 5, 6, 7)
    assert [rig.step(), rig.step()] == [[(1, 2, 3)], [(4, 5, 6, 7)]]
    assert rig.says(DRAFTER) == [VerifyCommit(1, 1, 0, (4, 5, 6, 7, 8), 12)]
    assert rig.says(FRONT) == [
        Emit(1, 0, (4, 5, 6, 7, 8), "efghi", (False, True, True, True, False))
    ]


def test_right_drafts_save_steps_and_change_no_text() -> None:
    plain, fast = Rig(), Rig(Limits())
    plain.submit(max_tokens=9)
    fast.submit(max_tokens=9)
    heard = fast.turn()
    steps = 1
    while not fast.empty:
        committed = len(fast.core._generations[1].output.tokens)
        fast.says(DRAFTER)
        fast.tail(committed, committed, *range(4 + committed, 7 + committed))
        fast.step()
        steps += 1
        heard += fast.says(FRONT)
    expected = plain.run(10)
    assert (tokens(heard), text(heard), steps) == (tokens(expected), text(expected), 3)
    assert done(heard).statistics == Statistics(3, 6, 6, 0, ((0, 0, 1), (3, 3, 2)))


def test_wrong_drafts_cost_nothing_but_their_rows() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=4)
    heard = rig.turn()
    for committed in (1, 2, 3):
        rig.says(DRAFTER)
        rig.tail(committed, committed, 80, 81)
        heard += rig.turn()
    assert tokens(heard) == [4, 5, 6, 7]
    rounds = ((0, 0, 1), (2, 0, 1), (1, 0, 1), (0, 0, 1))
    assert done(heard).statistics == Statistics(4, 3, 0, 0, rounds)


def test_commits_that_were_not_told_are_told_in_one_message() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=9)
    rig.core.plan(rig.now)
    rig.says(DRAFTER)
    for _ in range(4):
        rig.step()
    assert rig.says(DRAFTER) == [VerifyCommit(1, 1, 0, (4, 5, 6, 7), 7)]
    assert rig.says(DRAFTER) == []


def test_a_mirror_may_run_ahead_by_what_is_on_its_way() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=9)
    rig.core.plan(rig.now)
    rig.says(DRAFTER)
    rig.tail(0, 0)
    granted = []
    for _ in range(3):
        rig.step()
        granted += [each.max_ahead for each in rig.says(DRAFTER) if isinstance(each, VerifyCommit)]
    assert granted == [8, 9, 10]
    rig.tail(3, 3)
    rig.step()
    [commit] = rig.says(DRAFTER)
    assert isinstance(commit, VerifyCommit)
    assert commit.max_ahead == 8


class Naps(Fixed):
    """Drafts while it is awake."""

    awake = True

    def ahead(self, request: int) -> int:  # noqa: ARG002
        return self.wanted if self.awake else 0


def test_a_drafter_that_rests_hears_nothing_and_then_all_of_it_at_once() -> None:
    planner = Naps(PlannerConfig(draft_length=2, patience=0.5))
    rig = Rig(Limits(), planner=planner)
    rig.submit(max_tokens=20)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1)
    planner.awake = False
    for _ in range(5):
        assert len(rig.step()) == 1  # and it is not waited for
        assert rig.says(DRAFTER) == []
    planner.awake = True
    assert rig.core.plan(rig.now) is None  # it is worth waiting for again
    assert rig.says(DRAFTER) == [VerifyCommit(1, 1, 1, (5, 6, 7, 8, 9), planner.wanted)]
    rig.tail(6, 6, 10, 11)
    assert rig.step() == [(9, 10, 11)]
    reasons = rig.core.facts().counters["plain_rounds"]
    assert (reasons["rest"], reasons["late"]) == (5, 0)


class Told(Fixed):
    """Keeps what it is told of steps."""

    def __init__(self, config: PlannerConfig) -> None:
        super().__init__(config)
        self.told: list[tuple[int, bool]] = []

    def learn(self, outcome: Outcome) -> None:
        self.told += [(each.drafted, each.no_tail) for each in outcome.parts]


def test_a_planner_is_told_which_drafter_had_no_guess() -> None:
    planner = Told(PlannerConfig(draft_length=2, patience=0.0))
    rig = Rig(Limits(), planner=planner)
    rig.submit(max_tokens=20)
    rig.step()
    rig.says(DRAFTER)
    rig.step()  # nothing came yet
    rig.says(DRAFTER)
    rig.tail(2, 2)
    rig.step()  # an answer without a guess
    rig.says(DRAFTER)
    rig.tail(3, 3, 8)
    rig.step()
    assert planner.told == [(0, False), (0, True), (1, False)]


def test_while_drafters_rest_nobody_is_bound() -> None:
    planner = Naps(PlannerConfig(draft_length=2))
    planner.awake = False
    rig = Rig(Limits(), planner=planner)
    rig.submit(max_tokens=9)
    rig.step()
    rig.step()
    assert rig.says(DRAFTER) == []
    planner.awake = True
    rig.step()
    assert [type(each) for each in rig.says(DRAFTER)] == [DraftSync]


def test_a_drafter_s_own_bound_is_kept() -> None:
    rig = Rig(Limits(max_ahead=2))
    rig.submit()
    rig.step()
    rig.step()
    [sync] = rig.says(DRAFTER)
    assert isinstance(sync, DraftSync)
    assert sync.max_ahead == 2


def test_without_drafts_wanted_nobody_is_bound() -> None:
    rig = Rig(Limits(), draft_length=0)
    rig.submit(max_tokens=2)
    rig.run(4)
    assert rig.says(DRAFTER) == []


def test_a_request_that_ends_closes_its_mirror() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=1)
    rig.core.plan(rig.now)
    rig.says(DRAFTER)
    rig.step()
    assert rig.says(DRAFTER) == [DraftClose(1, 1, "length")]
    assert rig.core.links_with_news == [FRONT]


def test_a_drafter_that_never_heard_of_a_request_is_not_told_that_it_ended() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=1)
    rig.step()
    assert rig.says(DRAFTER) == []


def test_a_stop_inside_of_a_window_is_one_cut_for_all() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=9, stop=("fg",))
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    heard = rig.says(FRONT)
    assert (text(heard), tokens(heard)) == ("e", [4, 5, 6])
    assert (done(heard).output_tokens, done(heard).reason) == (3, "stop")
    assert rig.says(DRAFTER) == [DraftClose(1, 1, "stop")]
    assert rig.empty


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_an_end_token_inside_of_a_window_ends_there(place: int) -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=9, stop_token_ids=(4 + place,))
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    heard = rig.says(FRONT)
    assert tokens(heard) == list(range(4, 5 + place))
    assert (text(heard), done(heard).reason) == ("efgh"[:place], "stop")


def test_a_drafted_end_that_the_target_rejects_has_no_effect() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=3)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, END)
    assert tokens(rig.run(5)) == [4, 5, 6]


# --- a drafter that is late -------------------------------------------------------------------------------------


def patient() -> Rig:
    """One request in its second step: the first commit was told, the drafter has not answered it."""
    rig = Rig(Limits(), patience=0.002)
    rig.submit(max_tokens=30)
    rig.core.plan(rig.now)
    rig.says(DRAFTER)
    rig.step()
    rig.says(DRAFTER)
    return rig


def test_a_step_waits_for_a_tail_that_is_expected_but_only_so_long() -> None:
    rig = patient()
    assert (rig.core.plan(0.0100), rig.core.plan(0.0119)) == (None, None)
    assert rig.core.deadline(0.0119) == pytest.approx(0.012)
    assert rig.core.plan(0.0121) is not None


def test_a_tail_that_comes_ends_the_waiting() -> None:
    rig = patient()
    assert rig.core.plan(0.0110) is None
    rig.tail(1, 1, 5, 6, 7)
    assert rig.step() == [(4, 5, 6, 7)]


def test_an_empty_answer_ends_the_waiting_too() -> None:
    rig = patient()
    rig.tail(1, 1)
    assert rig.step() == [(4,)]


def test_a_tail_that_is_long_enough_is_not_waited_for() -> None:
    rig = patient()
    rig.tail(0, 0, 4, 5, 6, 7)
    assert rig.step() == [(4, 5, 6, 7)]


def test_a_drafter_that_never_answers_is_soon_not_waited_for() -> None:
    rig = patient()
    waited = []
    for _ in range(20):
        waited.append(rig.core.plan(rig.now) is None)
        rig.now += 0.0021
        rig.step()
        rig.says(DRAFTER)
    assert waited[:5] == [True] * 5
    assert waited[-10:] == [False] * 10


def test_nobody_waits_for_a_drafter_that_is_gone() -> None:
    rig = patient()
    rig.down(DRAFTER)
    assert rig.step() == [(4,)]


def test_a_request_in_its_prompt_expects_no_tail() -> None:
    rig = Rig(Limits(), patience=0.002)
    rig.submit(1, [5] * 30, max_tokens=4)
    assert rig.step() == [(5,) * 30]


# --- rows that come at the wrong time -----------------------------------------------------------------------------


def test_rows_of_another_epoch_are_counted_and_dropped() -> None:
    rig = Rig(Limits())
    rig.submit()
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, epoch=2)
    rig.tail(9, 9, 5, 6, epoch=0)
    assert rig.core.counters["rows_other_epoch"] == 2
    assert rig.step() == [(4,)]


def test_rows_of_unknown_and_ended_requests_are_counted_and_dropped() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=1)
    rig.step()
    rig.tail(1, 1, 5)
    rig.tail(0, 0, 5, request=2**63)
    assert (rig.core.counters["rows_unknown_request"], rig.empty) == (2, True)


def test_rows_of_a_drafter_that_is_not_the_request_s_own_are_dropped() -> None:
    rig = Rig(Limits(), Limits())
    rig.submit()
    rig.step()
    rig.says(DRAFTER)
    rig.hear(SECOND, DraftTailStream(1, 1, 1, 1, (5, 6)))
    assert (rig.core.counters["rows_other_epoch"], rig.step()) == (1, [(4,)])


def test_a_cut_row_is_counted() -> None:
    rig = Rig(Limits())
    rig.submit()
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 80)
    rig.step()
    rig.tail(1, 2, 81)
    assert (rig.core.counters["rows_cut"], rig.core.counters["rows_faulty"]) == (1, 0)


FAULTS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "knows too much": (2, 2, (6,)),
    "hole": (1, 3, (7,)),
    "too many": (1, 1, (5,) * 9),
    "no such token": (1, 1, (VOCABULARY,)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_row_costs_its_request_the_drafter_for_a_while_and_nobody_else(name: str) -> None:
    rig = Rig(Limits())
    rig.submit(1, max_tokens=30)
    rig.submit(2, max_tokens=30)
    rig.step()
    rig.says(DRAFTER)
    base, start, drafts = FAULTS[name]
    rig.tail(base, start, *drafts)
    rig.tail(1, 1, 5, 6, request=2)
    assert rig.core.counters["rows_faulty"] == 1
    assert rig.says(DRAFTER) == [DraftClose(1, 1, "fault")]
    assert rig.step() == [(4,), (4, 5, 6)]
    rig.now = 0.3
    rig.step()
    again = [each for each in rig.says(DRAFTER) if isinstance(each, DraftSync)]
    assert [(each.request, each.epoch, each.output) for each in again] == [(1, 2, (4, 5, 6))]


# --- refusals of a drafter -----------------------------------------------------------------------------------------


def refused(code: str, *drafters: Limits) -> Rig:
    rig = Rig(*drafters)
    rig.submit(max_tokens=30)
    rig.step()
    rig.says(DRAFTER)
    rig.hear(DRAFTER, Refuse(code, "no", 1, 1))
    return rig


def test_a_refused_request_goes_on_plainly_and_asks_again_after_doubled_waits() -> None:
    rig = refused("full", Limits())
    asked = []
    for _ in range(40):
        rig.now += 0.09
        rig.step()
        for each in rig.says(DRAFTER):
            if isinstance(each, DraftSync):
                asked.append(round(rig.now, 2))
                rig.hear(DRAFTER, Refuse("full", "no", 1, each.epoch))
    assert asked == [0.31, 0.91, 2.01]
    assert rig.core.counters["refused_full"] == 4


def test_a_refused_request_binds_to_another_drafter_at_once() -> None:
    rig = refused("full", Limits(), Limits())
    rig.step()
    [sync] = rig.says(SECOND)
    assert isinstance(sync, DraftSync)
    assert (sync.epoch, sync.output) == (2, (4, 5))


def test_a_request_that_is_too_long_for_a_drafter_never_asks_it_again() -> None:
    rig = refused("context", Limits())
    rig.says(DRAFTER)
    for rig.now in range(1, 100, 10):
        rig.step()
        assert rig.says(DRAFTER) == []


def test_a_refusal_of_an_earlier_epoch_is_not_obeyed() -> None:
    rig = refused("full", Limits(), Limits())
    rig.step()
    rig.says(SECOND)
    rig.hear(SECOND, Refuse("unknown", "late", 1, 1))
    rig.hear(DRAFTER, Refuse("unknown", "late", 1, 2))
    assert rig.core._generations[1].binding is not None
    assert rig.core.counters["refused_stale"] == 2


def test_a_mirror_that_the_drafter_lost_is_opened_again_with_all_that_was_committed() -> None:
    rig = refused("unknown", Limits())
    rig.now = 1.0
    rig.step()
    assert rig.says(DRAFTER) == [
        DraftClose(1, 1, "refused"),
        DraftSync(1, 2, (1, 2, 3), (4, 5), 7),
    ]


# --- links that end --------------------------------------------------------------------------------------------------


def test_when_a_drafter_is_lost_its_requests_bind_to_another_in_the_next_step() -> None:
    rig = Rig(Limits(), Limits())
    rig.submit(max_tokens=20)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    rig.down(DRAFTER)
    assert rig.step() == [(4,)]
    assert rig.says(SECOND) == [DraftSync(1, 2, (1, 2, 3), (4, 5), 7)]
    assert rig.core.links_with_news == [FRONT]


def test_when_the_only_drafter_is_lost_requests_go_on_plainly_until_it_is_back() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=20)
    rig.step()
    rig.says(DRAFTER)
    rig.down(DRAFTER)
    assert [rig.step(), rig.step()] == [[(4,)], [(5,)]]
    rig.up(SECOND, "drafter")
    rig.step()
    assert rig.says(SECOND) == [DraftSync(1, 2, (1, 2, 3), (4, 5, 6, 7), 7)]


def test_pending_closes_of_a_lost_link_are_forgotten() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=1)
    rig.core.plan(rig.now)
    rig.says(DRAFTER)
    rig.step()
    rig.down(DRAFTER)
    assert (rig.says(DRAFTER), rig.core.links_with_news) == ([], [FRONT])


def test_when_a_front_door_is_lost_nothing_of_its_requests_is_left() -> None:
    rig = Rig(Limits())
    rig.up(2, "front")
    rig.submit(1, max_tokens=20, choices=2)
    rig.hear(2, submit(1, [50], max_tokens=2))
    rig.step()
    rig.says(DRAFTER)
    rig.down(FRONT)
    assert rig.says(DRAFTER) == [
        DraftClose(1, 1, "front door gone"),
        DraftClose(2, 1, "front door gone"),
    ]
    assert (rig.step(), rig.core.outbox(FRONT)) == ([(51,)], [])
    assert tokens(rig.says(2)) == [51, 52]
    assert rig.empty


def test_a_submission_over_a_link_that_is_gone_is_not_taken() -> None:
    rig = Rig()
    rig.down(FRONT)
    rig.submit()
    assert (rig.step(), rig.core.counters["messages_unexpected"]) == ([], 1)


def test_a_link_that_nobody_knows_may_end() -> None:
    rig = Rig()
    rig.down(77)
    rig.core.handle(Rejected("tokenizer"), rig.now)
    assert rig.core.counters["links_rejected"] == 1


# --- cancelling ------------------------------------------------------------------------------------------------------


def test_a_cancelled_request_frees_everything_and_says_its_last_words() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=20, stop=("ghx",))
    for _ in range(4):
        rig.step()
    rig.says(DRAFTER)
    rig.says(FRONT)
    rig.hear(FRONT, Abort(1, "client gone"))
    assert rig.says(FRONT) == [
        Emit(1, 0, (), "gh"),
        Done(1, 0, "abort", 3, 4, Statistics(4, history=((0, 0, 4),)), "client gone"),
    ]
    assert rig.says(DRAFTER) == [DraftClose(1, 1, "abort")]
    assert (rig.empty, rig.step()) == (True, [])


def test_cancelling_again_or_what_is_unknown_is_nothing() -> None:
    rig = Rig()
    rig.submit()
    rig.hear(FRONT, Abort(1), Abort(1), Abort(9))
    assert rig.says(FRONT) == [Done(1, 0, "abort", 3, 0)]
    assert rig.says(FRONT) == []


def test_all_choices_of_a_cancelled_request_end() -> None:
    rig = Rig()
    rig.submit(choices=2)
    rig.step()
    rig.hear(FRONT, Abort(1))
    ended = [each.choice for each in rig.says(FRONT) if isinstance(each, Done)]
    assert (ended, rig.empty) == ([0, 1], True)


def test_a_request_that_still_waits_can_be_cancelled() -> None:
    rig = Rig(max_running=1)
    rig.submit(1, max_tokens=3)
    rig.submit(2)
    rig.step()
    rig.hear(FRONT, Abort(2))
    heard = rig.run(5)
    assert [(each.request, each.reason) for each in heard if isinstance(each, Done)] == [
        (2, "abort"),
        (1, "length"),
    ]
    assert rig.empty


def test_a_request_that_is_cancelled_during_the_forward_commits_nothing() -> None:
    rig = Rig(Limits())
    rig.submit(max_tokens=20)
    step = rig.core.plan(rig.now)
    assert step is not None
    rig.hear(FRONT, Abort(1))
    rig.finish(step)
    assert (tokens(rig.says(FRONT)), rig.empty) == ([], True)


def test_a_request_that_loses_its_pages_during_the_forward_computes_again() -> None:
    rig = Rig()
    rig.submit(max_tokens=2)
    step = rig.core.plan(rig.now)
    assert step is not None
    rig.core.scheduler._preempt(rig.core._generations[1])
    rig.finish(step)
    assert tokens(rig.run(4)) == [4, 5]


def test_another_front_door_cannot_cancel() -> None:
    rig = Rig()
    rig.up(2, "front")
    rig.submit(max_tokens=1)
    rig.hear(2, Abort(1))
    assert tokens(rig.run(2)) == [4]


def test_a_request_past_its_deadline_ends() -> None:
    rig = Rig()
    rig.submit(max_tokens=20, deadline=0.5)
    rig.step()
    assert rig.core.deadline(rig.now) == 0.5
    rig.now = 0.5
    assert rig.step() == []
    assert done(rig.says(FRONT)) == Done(
        1, 0, "abort", 3, 1, Statistics(1, history=((0, 0, 1),)), "deadline"
    )
    assert rig.empty


# --- who may come in ---------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[dict[str, Any], Refuse]] = {
    "empty prompt": (
        {"tokens": ()},
        Refuse("invalid", "the prompt is empty", 9, field="tokens"),
    ),
    "token at the end": (
        {"tokens": (1, VOCABULARY)},
        Refuse("invalid", "token 100 is not below 100", 9, field="tokens"),
    ),
    "stop token": (
        {"stop_token_ids": (VOCABULARY + 1,)},
        Refuse("invalid", "token 101 is not below 100", 9, field="stop_token_ids"),
    ),
    "too long": (
        {"tokens": (1,) * 20, "max_tokens": 21},
        Refuse("invalid", "20 prompt tokens and 21 more exceed 40", 9, field="max_tokens"),
    ),
    "adapter": (
        {"adapter": "law"},
        Refuse("invalid", "no adapter 'law'", 9, field="adapter"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused_with_the_field_and_its_neighbours_go_on(
    name: str,
) -> None:
    rig = Rig()
    rig.submit(1, max_tokens=2)
    fields, refusal = REFUSED[name]
    rig.hear(FRONT, submit(9, **fields))
    assert rig.says(FRONT) == [refusal]
    rig.submit(9, max_tokens=1)  # the number is free again
    assert sorted(tokens(rig.run(3))) == [4, 4, 5]


def test_the_longest_that_fits_is_served() -> None:
    rig = Rig()
    rig.submit(1, [1] * 20, max_tokens=20)
    assert len(tokens(rig.run(25))) == 20


def test_a_verifier_that_is_greedy_says_so() -> None:
    rig = Rig(rule="greedy")
    rig.submit(sampling=Sampling(temperature=0.5))
    [refusal] = rig.says(FRONT)
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.field) == ("invalid", "temperature")


def test_a_request_number_in_use_is_refused_and_the_first_one_goes_on() -> None:
    rig = Rig()
    rig.submit(1, max_tokens=2)
    rig.submit(1, [50], max_tokens=2)
    assert rig.says(FRONT) == [
        Refuse("invalid", "this request number is in use", 1, field="request")
    ]
    assert tokens(rig.run(4)) == [4, 5]


def test_more_than_may_wait_are_refused() -> None:
    rig = Rig(max_running=1, max_waiting=1)
    rig.submit(1, max_tokens=1)
    rig.submit(2, max_tokens=1, choices=2)
    rig.submit(3, max_tokens=1)
    rig.submit(4, max_tokens=1)
    full = "too many requests are waiting"
    assert rig.says(FRONT) == [Refuse("full", full, 2), Refuse("full", full, 4)]
    assert len(tokens(rig.run(4))) == 2


def test_a_draining_verifier_finishes_what_runs_and_takes_nothing_new() -> None:
    rig = Rig()
    rig.submit(1, max_tokens=2)
    rig.core.draining = True
    rig.submit(2)
    assert rig.says(FRONT) == [Refuse("draining", "the verifier is draining", 2)]
    assert rig.core.heartbeat() == Heartbeat("draining", 1)
    rig.step()
    rig.step()
    before = rig.core.idle
    assert tokens(rig.says(FRONT)) == [4, 5]
    assert (before, rig.core.idle) == (False, True)  # idle only when the front door was told


# --- who drafts ------------------------------------------------------------------------------------------------------


def test_requests_spread_over_drafters_and_the_text_is_the_same() -> None:
    rig = Rig(Limits(), Limits())
    for request in (1, 2, 3, 4):
        rig.submit(request, max_tokens=1)
    rig.core.plan(rig.now)
    opened = [
        [sync.request for sync in rig.says(link) if isinstance(sync, DraftSync)]
        for link in (10, 11)
    ]
    assert opened == [[1, 3], [2, 4]]


def test_a_full_drafter_gets_no_more_until_a_request_ends() -> None:
    rig = Rig(Limits(requests=1))
    rig.submit(1, max_tokens=2)
    rig.submit(2, max_tokens=9)
    rig.core.plan(rig.now)
    assert len(rig.says(DRAFTER)) == 1
    rig.step()
    rig.step()
    rig.step()
    assert rig.says(DRAFTER) == [
        DraftClose(1, 1, "length"),
        DraftSync(2, 1, (1, 2, 3), (4, 5, 6), 7),
    ]


def test_requests_leave_a_draining_drafter_and_none_comes() -> None:
    rig = Rig(Limits())
    rig.submit(1)
    rig.step()
    rig.says(DRAFTER)
    rig.hear(DRAFTER, Heartbeat("draining", 1))
    rig.submit(2)
    rig.step()
    assert rig.says(DRAFTER) == [DraftClose(1, 1, "draining")]


def test_a_stream_that_grows_past_a_drafter_s_context_goes_on_without_and_its_neighbour_keeps_it() -> (
    None
):
    rig = Rig(Limits(context=8))
    rig.submit(1, [1, 2, 3, 4, 5], max_tokens=6)
    rig.submit(2, [1], max_tokens=6)
    rig.core.plan(rig.now)
    assert [each.request for each in rig.says(DRAFTER) if isinstance(each, DraftSync)] == [1, 2]
    closed = []
    heard = []
    for _ in range(7):
        rig.step()
        heard += rig.says(FRONT)
        closed += [each for each in rig.says(DRAFTER) if isinstance(each, DraftClose)]
    assert closed == [DraftClose(1, 1, "context"), DraftClose(2, 1, "length")]
    assert sorted(tokens(heard)) == sorted([*range(6, 12), *range(2, 8)])


@pytest.mark.parametrize(("length", "opened"), [(7, 1), (8, 0), (9, 0), (30, 0)])
def test_a_prompt_beyond_a_drafter_s_context_is_served_plainly(length: int, opened: int) -> None:
    rig = Rig(Limits(context=8))
    rig.submit(1, [1] * length, max_tokens=1)
    rig.core.plan(rig.now)
    assert len(rig.says(DRAFTER)) == opened
    assert tokens(rig.run(2)) == [2]


# --- small words -----------------------------------------------------------------------------------------------------


def test_a_reset_forgets_the_prefix_cache() -> None:
    rig = Rig()

    def computed(request: int) -> int:
        rig.submit(request, [1] * 9, max_tokens=1)
        [row] = rig.step()
        return len(row)

    counts = [computed(1), computed(2)]
    rig.hear(FRONT, Reset())
    assert [*counts, computed(3)] == [9, 1, 9]


def test_words_that_make_no_sense_are_counted() -> None:
    rig = Rig(Limits())
    rig.hear(DRAFTER, submit(5), CorpusList(), Refuse("full"), Abort(1))
    rig.hear(FRONT, DraftTailStream(1, 1, 0, 0, ()), DraftClose(1, 1), Refuse("full", request=1))
    rig.hear(FRONT, Heartbeat())
    assert (rig.core.counters["messages_unexpected"], rig.step()) == (7, [])


def test_an_idle_core_has_no_deadline_and_nothing_to_say() -> None:
    rig = Rig(Limits(), patience=0.002)
    rig.submit(max_tokens=1)
    rig.run(2)
    assert (rig.core.deadline(rig.now), rig.core.links_with_news) == (float("inf"), [])
    assert rig.core.heartbeat() == Heartbeat("ready", 0)


def every_ending() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "length", {"max_tokens": 5}
    yield "stop", {"max_tokens": 9, "stop_token_ids": (7,)}
    yield "stop", {"max_tokens": 9, "stop": ("gh",)}


@pytest.mark.parametrize("drafts", [0, 1, 3])
@pytest.mark.parametrize(("reason", "ending"), list(every_ending()))
def test_the_books_balance(reason: str, ending: dict[str, Any], drafts: int) -> None:
    rig = Rig(Limits())
    rig.submit(**ending)
    heard = rig.turn()
    while not rig.empty:
        rig.says(DRAFTER)
        committed = len(rig.core._generations[1].output.tokens)
        rig.tail(committed, committed, *range(4 + committed, 4 + committed + drafts))
        heard += rig.turn()
    last = done(heard)
    counts = last.statistics
    marks = [mark for each in heard if isinstance(each, Emit) for mark in each.drafted]
    assert (last.reason, last.output_tokens) == (reason, len(tokens(heard)))
    assert 0 <= counts.accepted <= counts.drafted <= drafts * counts.rounds
    assert last.output_tokens <= counts.accepted + counts.rounds
    assert (len(marks), sum(marks) <= counts.accepted) == (last.output_tokens, True)
