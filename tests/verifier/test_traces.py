"""Rounds are recorded with what was right of their tails, which is known when the answer is over."""

from protocol.messages import Limits
from tests.verifier.test_core import DRAFTER, Rig
from verifier.config import PlannerConfig
from verifier.planners.fixed import Fixed
from verifier.traces import TracedEnd, TracedRound, TracedStep, Traces


def test_a_round_tells_how_much_of_its_tail_came_true_verified_or_not() -> None:
    traces = Traces()
    rig = Rig(Limits(), planner=Fixed(PlannerConfig(draft_length=1, patience=0.0)), traces=traces)
    rig.submit(max_tokens=6)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 80)  # two are right, one of them is verified
    rig.run()
    told = traces.take()
    rounds = [each for each in told if isinstance(each, TracedRound)]
    first = rounds[0]
    assert (first.position, first.available, first.right) == (1, 3, 2)
    assert (first.drafted, first.accepted, first.emitted) == (1, 1, 2)
    assert (first.label, first.reason) == ("ngram", "set")
    assert [each.position for each in rounds] == [1, 3, 4, 5]
    assert told[-1] == TracedEnd(1, 6)
    steps = [each for each in told if isinstance(each, TracedStep)]
    assert [each.step for each in steps] == list(range(len(steps)))
    assert (steps[0].beside, steps[1].rows, steps[1].tokens) == (3, 1, 2)
    assert traces.take() == []
