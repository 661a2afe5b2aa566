"""The verifier's loop over an in-process mesh: one turn at a time, with a worker that counts up."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest

from engine.pages import PagePool
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity, Received
from protocol.local_mesh import LocalNetwork
from protocol.messages import (
    Abort,
    AnyMessage,
    Done,
    DraftClose,
    DraftSync,
    DraftTailStream,
    Emit,
    Limits,
    Refuse,
    Report,
)
from protocol.process import Drain, Peers, Stop
from protocol.spans import Context, Span, traceparent
from tests import identities
from tests.verifier.rig import END, VOCABULARY, Letters, judge, submit, tokens
from verifier.admission import Admission
from verifier.config import PlannerConfig, VerifierConfig
from verifier.core import VerifierCore
from verifier.node import LONGEST_STEP, StuckError, VerifierNode
from verifier.pending import Pending, Wake
from verifier.planners import PLANNERS
from verifier.step import Step, Verdict


class Counts:
    """A target whose next token is the last one plus one.

    While there is something in `meanwhile`, its verdicts are on their way: each of it happens once, while they are.
    """

    def __init__(self) -> None:
        self.windows: list[tuple[int, ...]] = []
        self.meanwhile: list[Callable[[], object]] = []
        self._wake: Wake = lambda: None

    def ended(self) -> None:
        """The device has computed what it was asked for."""
        self._wake()

    def begin(self, step: Step, wake: Wake) -> Pending:
        self.windows += [work.tokens for work in step.rows]
        self._wake = wake
        return Slow([judge(work) for work in step.rows], self.meanwhile)


@dataclass
class Slow:
    """Verdicts that come behind something else."""

    verdicts: list[Verdict]
    meanwhile: list[Callable[[], object]]

    def ready(self) -> bool:
        if not self.meanwhile:
            return True
        self.meanwhile.pop(0)()
        return False

    def take(self) -> list[Verdict]:
        assert not self.meanwhile, "nobody takes what is on its way"
        return self.verdicts


class World:
    """A verifier, a front door that dials it, and a drafter that it may dial."""

    def __init__(self) -> None:
        self.now = 0.0
        self.network = LocalNetwork(lambda: self.now)
        self.numbers = count(1).__next__
        planner = PlannerConfig(draft_length=2, patience=0.0)
        core = identities.watched(
            VerifierCore(
                VerifierConfig(model="unused", planner=planner),
                Admission(40, VOCABULARY, frozenset({END})),
                PagePool(64, 4),
                PLANNERS["fixed"](planner),
                Letters,
            )
        )
        self.worker = Counts()
        verifier = self.endpoint("verifier", Identity("verifier", "verifier-0"))
        self.spans: list[Span] = []
        self.node = VerifierNode(
            core, verifier, self.worker, lambda: self.now, tracer=self.spans.extend
        )
        self.front = self.endpoint("front", Identity("front", "front-0"))
        self.drafter = self.endpoint("drafter", Identity("drafter", "d", limits=Limits()))
        self.front.dial("verifier", self.now)
        self.turn()
        self.turn()

    def endpoint(self, name: str, identity: Identity) -> Endpoint:
        return Endpoint(self.network.mesh(name), LinkConfig(), identity, self.numbers)

    def turn(self) -> tuple[bool, list[AnyMessage], list[AnyMessage]]:
        """Did the verifier compute; what the front door and the drafter heard."""
        worked = self.node.turn()
        return worked, self.heard(self.front), self.heard(self.drafter)

    def heard(self, endpoint: Endpoint) -> list[AnyMessage]:
        events = [each for each in endpoint.drain(self.now) if isinstance(each, Received)]
        return [message for event in events for message in event.messages]

    def ask(self, *messages: AnyMessage) -> None:
        assert self.front.send(self.front.links[0], messages, self.now)


def test_a_request_is_served_turn_by_turn() -> None:
    world = World()
    world.ask(submit(1, max_tokens=2))
    turns = [world.turn()[:2] for _ in range(3)]
    assert [worked for worked, _ in turns] == [True, True, False]
    assert turns[0][1] == [Emit(1, 0, (4,), "e", (False,))]
    assert [type(each) for each in turns[1][1]] == [Emit, Done]


def test_a_listed_drafter_is_dialled_and_its_guesses_are_verified() -> None:
    world = World()
    world.node.command(Peers(("drafter",)))
    world.turn()
    world.turn()
    world.ask(submit(1, max_tokens=9))
    _, _, [sync, *_] = world.turn()
    assert sync == DraftSync(1, 1, (1, 2, 3), (), 5)
    row = DraftTailStream(1, 1, 1, 1, (5, 6))
    world.drafter.send(world.drafter.links[0], [row], world.now)
    assert tokens(world.turn()[1]) == [5, 6, 7]
    assert world.worker.windows == [(1, 2, 3), (4, 5, 6)]


def test_a_drafter_that_leaves_the_list_is_left_and_the_request_goes_on() -> None:
    world = World()
    world.node.command(Peers(("drafter",)))
    world.turn()
    world.turn()
    world.ask(submit(1, max_tokens=3))
    world.turn()
    world.node.command(Peers(()))
    assert [tokens(world.turn()[1]) for _ in range(2)] == [[5], [6]]
    assert len(world.node.core.drafting.roster) == 0


def test_a_drain_finishes_what_runs_and_stops_when_everybody_was_told() -> None:
    world = World()
    world.ask(submit(1, max_tokens=3))
    world.turn()
    world.node.command(Drain())
    world.ask(submit(2))
    heard: list[AnyMessage] = []
    stopped = []
    for _ in range(3):
        heard += world.turn()[1]
        stopped.append(world.node.stopped)
    assert (tokens(heard), stopped) == ([5, 6], [False, False, True])
    assert [each for each in heard if isinstance(each, Refuse)] == [
        Refuse("draining", "the verifier is draining", 2)
    ]


def test_an_idle_verifier_that_is_drained_stops_in_its_next_turn() -> None:
    world = World()
    world.node.command(Drain())
    world.turn()
    assert world.node.stopped


def test_a_stop_is_at_once() -> None:
    world = World()
    world.ask(submit(1, max_tokens=3))
    world.node.command(Stop())
    assert world.node.stopped


# --- while a device computes -----------------------------------------------------------------------------------------


def drafted_world() -> World:
    """One request has said 4, and its drafter was told."""
    world = World()
    world.node.command(Peers(("drafter",)))
    world.turn()
    world.turn()
    world.ask(submit(1, max_tokens=5))
    world.turn()
    assert world.worker.windows == [(1, 2, 3)]
    return world


def guess(world: World) -> None:
    row = DraftTailStream(1, 1, 1, 1, (5, 6))
    assert world.drafter.send(world.drafter.links[0], [row], world.now)


def test_what_arrives_meanwhile_is_heard_before_verdicts_are_taken() -> None:
    """Guesses whose first is confirmed by the very step, and a request that takes part in the next one."""
    world = drafted_world()
    world.worker.meanwhile += [
        lambda: guess(world),
        lambda: world.ask(submit(2, (7, 8))),
        world.worker.ended,
    ]
    assert tokens(world.turn()[1]) == [5]
    assert world.worker.windows[1:] == [(4,)]
    plain = world.node.core.facts().counters["plain_rounds"]
    assert (plain["late"], plain["no_room"]) == (1, 0), "it had no guesses when the step began"
    assert sorted(tokens(world.turn()[1])) == [6, 7, 9]
    assert sorted(world.worker.windows[2:]) == [(5, 6), (7, 8)]


def test_a_request_that_ends_meanwhile_gets_none_of_the_verdicts() -> None:
    world = drafted_world()
    world.worker.meanwhile += [lambda: world.ask(Abort(1)), world.worker.ended]
    _, front, drafter = world.turn()
    assert [type(each) for each in front] == [Done]
    assert [each for each in drafter if isinstance(each, DraftClose)] == [DraftClose(1, 1, "abort")]
    assert world.turn()[0] is False
    pool = world.node.core.scheduler.pool
    assert pool.free == pool.pages


def test_a_drafter_that_goes_meanwhile_costs_no_token() -> None:
    world = drafted_world()
    guess(world)
    world.worker.meanwhile += [
        world.drafter.close,
        world.worker.ended,
    ]
    assert tokens(world.turn()[1]) == [5, 6, 7]
    assert tokens(world.turn()[1]) == [8]
    assert len(world.node.core.drafting.roster) == 0


def test_verdicts_alone_wake_whoever_waits_for_them() -> None:
    world = drafted_world()
    world.worker.meanwhile.append(world.worker.ended)
    assert tokens(world.turn()[1]) == [5]


def test_a_device_that_never_ends_a_step_ends_the_verifier() -> None:
    world = drafted_world()

    def later() -> None:
        world.now += LONGEST_STEP / 4
        world.worker.ended()
        world.worker.meanwhile.append(later)

    world.worker.meanwhile.append(later)
    with pytest.raises(StuckError, match="the device did not finish a step within 60 s"):
        world.turn()


# --- for those who watch ---------------------------------------------------------------------------------------------


def reports(messages: list[AnyMessage]) -> list[Report]:
    return [each for each in messages if isinstance(each, Report)]


def test_a_front_door_is_told_once_a_second_what_was_counted() -> None:
    world = World()
    world.ask(submit(1, max_tokens=2))
    heard = world.turn()[1] + world.turn()[1]
    assert reports(heard) == []  # the first one came with the link
    world.now = 1.0
    [report] = reports(world.turn()[1])
    assert (report.node_id, report.role) == ("verifier-0", "verifier")
    assert report.facts.counters["rounds"] == {"": 2}
    assert report.facts.counters["links_begun"] == {"": 1}


def test_what_drafters_report_comes_behind_the_verifiers_own() -> None:
    world = World()
    world.node.command(Peers(("drafter",)))
    world.turn()
    world.turn()
    world.drafter.send(world.drafter.links[0], [Report("d", "drafter", 4)], world.now)
    world.now = 1.0
    assert [each.number for each in reports(world.turn()[1])] == [2, 4]


def test_records_of_traced_requests_are_handed_over_when_the_step_was_said() -> None:
    world = World()
    world.ask(submit(1, max_tokens=1, trace=traceparent(Context(1, 2))))
    world.turn()
    assert {span.context for span in world.spans} == {Context(1, 2)}
    assert world.spans[-1].last
    assert not world.node.core.record.spans


def test_a_verifier_with_traffic_logs_a_line_every_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "verifier.node")
    world = World()
    world.ask(submit(1, max_tokens=2))
    lines = []
    for world.now in (1.0, 9.0, 10.0, 15.0, 20.0, 30.0):
        caplog.clear()
        world.turn()
        lines.append(sum("SpecDecoding metrics" in text for text in caplog.messages))
    assert lines == [0, 0, 1, 0, 0, 0]
