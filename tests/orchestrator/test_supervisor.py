"""Stories of children that live, die and are stopped; no process is started and no time passes."""

from typing import Any

import pytest

from drafter.config import DrafterConfig
from orchestrator.launch.events import (
    Action,
    Changed,
    DrainAsked,
    Exited,
    Kill,
    Over,
    Registered,
    Said,
    ScaleAsked,
    Spawn,
    Spawned,
    StopAsked,
    Tell,
    Tick,
    Wish,
)
from orchestrator.launch.plan import Child
from orchestrator.launch.supervisor import ATTEMPTS, LONGEST_WAIT, MARGIN, STEADY, Supervisor
from orchestrator.launch.wishes import RefusedError
from protocol.quietly import VARIABLE
from tests.orchestrator.fakes import config
from verifier.config import VerifierConfig

CHILDREN = (
    Child(config(), "front"),
    Child(VerifierConfig.model_validate({"model": "."}), "verifier"),
    Child(DrafterConfig(), "drafter"),
)
ADDRESSES = {"verifier-0": "tcp://127.0.0.1:1", "drafter-0": "tcp://127.0.0.1:2"}
DRAIN = {"drain": True}


class Stage:
    """A supervisor and the time; `all` collects what it said since it was last looked at."""

    def __init__(self) -> None:
        self.core = Supervisor(CHILDREN, 0.0)
        self.now = 0.0
        self.actions: list[Action] = []

    def happen(self, *events: Any) -> list[Action]:
        """The actions of these events, without what is only news."""
        actions = [action for event in events for action in self.core.handle(event, self.now)]
        return [action for action in actions if not isinstance(action, Changed)]

    def ready(self, name: str) -> list[Action]:
        fields = {"address": ADDRESSES[name]} if name in ADDRESSES else {"http": "http://h:1234"}
        return self.happen(Said(name, "ready", fields))

    def up(self) -> "Stage":
        self.happen(Tick())
        for name in self.core.members:
            self.happen(Spawned(name, 100))
            self.ready(name)
        return self

    def wait(self) -> list[Action]:
        """Time passes to the next deadline."""
        self.now = self.core.deadline()
        return self.happen(Tick())

    def is_up(self) -> bool:
        return self.core.up

    def state(self, name: str) -> str:
        return self.core.members[name].state


def spawned(actions: list[Action]) -> list[str]:
    return [action.child.name for action in actions if isinstance(action, Spawn)]


def test_all_are_started_at_once() -> None:
    assert spawned(Stage().happen(Tick())) == ["front-0", "verifier-0", "drafter-0"]


def test_whoever_dials_hears_of_addresses_as_they_come() -> None:
    stage = Stage()
    stage.happen(Tick())
    assert stage.happen(Spawned("front-0", 1)) == [Tell("front-0", {"peers": []})]
    assert stage.ready("drafter-0") == [Tell("verifier-0", {"peers": [ADDRESSES["drafter-0"]]})]
    assert stage.ready("verifier-0") == [Tell("front-0", {"peers": [ADDRESSES["verifier-0"]]})]
    assert not stage.is_up()
    assert stage.ready("front-0") == []
    assert stage.is_up()


def test_a_second_status_with_the_same_address_is_no_news() -> None:
    stage = Stage().up()
    assert stage.ready("verifier-0") == []


def test_a_dead_child_is_taken_off_the_list_and_comes_back_where_it_was() -> None:
    stage = Stage().up()
    assert stage.happen(Exited("drafter-0", -9)) == [Tell("verifier-0", {"peers": []})]
    assert stage.state("drafter-0") == "waiting"
    (spawn,) = stage.wait()
    assert isinstance(spawn, Spawn)
    assert getattr(spawn.child.config, "bind", "") == ADDRESSES["drafter-0"]
    assert stage.ready("drafter-0") == [Tell("verifier-0", {"peers": [ADDRESSES["drafter-0"]]})]


def test_a_drafter_that_is_started_again_leaves_the_processors_to_those_that_serve() -> None:
    stage = Stage()
    first = {
        each.child.name: each.child for each in stage.happen(Tick()) if isinstance(each, Spawn)
    }
    assert not any(VARIABLE in child.environment for child in first.values())
    stage = Stage().up()
    stage.happen(Exited("drafter-0", -9))
    (drafter,) = stage.wait()
    stage.happen(Exited("verifier-0", -9))
    (verifier,) = stage.wait()
    assert isinstance(drafter, Spawn)
    assert isinstance(verifier, Spawn)
    assert (VARIABLE in drafter.child.environment, VARIABLE in verifier.child.environment) == (
        True,
        False,
    )


def test_a_restarted_dialler_is_told_whom_to_dial() -> None:
    stage = Stage().up()
    stage.happen(Exited("verifier-0", -9))
    stage.wait()
    told = stage.happen(Spawned("verifier-0", 7))
    assert told == [Tell("verifier-0", {"peers": [ADDRESSES["drafter-0"]]})]


def test_a_restarted_front_door_keeps_its_port() -> None:
    stage = Stage().up()
    stage.happen(Exited("front-0", 1))
    (spawn,) = stage.wait()
    assert isinstance(spawn, Spawn)
    assert getattr(spawn.child.config, "port", 0) == 1234


def test_a_child_that_cannot_get_its_old_address_back_takes_any() -> None:
    stage = Stage().up()
    stage.happen(Exited("drafter-0", -9))
    stage.wait()
    stage.happen(Exited("drafter-0", 1))
    (spawn,) = stage.wait()
    assert isinstance(spawn, Spawn)
    assert getattr(spawn.child.config, "bind", "") == DrafterConfig().bind


def test_waits_double_to_a_bound_and_are_forgotten_in_steady_life() -> None:
    stage = Stage().up()
    waits = []
    for _ in range(9):
        stage.happen(Exited("drafter-0", 1))
        waits.append(stage.core.deadline() - stage.now)
        stage.wait()
    assert waits == [0.5, 1, 2, 4, 8, 16, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]
    stage.ready("drafter-0")
    stage.now += STEADY
    stage.happen(Exited("drafter-0", 1))
    assert stage.core.deadline() - stage.now == 0.5


def test_a_verifier_that_says_why_it_cannot_start_ends_the_service() -> None:
    stage = Stage()
    stage.happen(Tick())
    stage.happen(Said("verifier-0", "failed", {"detail": {"error": "no weights"}}))
    assert stage.happen(Exited("verifier-0", 1)) == [Kill("front-0"), Kill("drafter-0")]
    assert stage.happen(Exited("front-0", -9)) == []
    assert stage.happen(Exited("drafter-0", -9)) == [
        Over(1, "verifier-0 could not start: no weights.")
    ]


def test_a_verifier_that_dies_without_a_word_is_tried_a_few_times() -> None:
    stage = Stage()
    stage.happen(Tick())
    for _ in range(ATTEMPTS - 1):
        assert stage.happen(Exited("verifier-0", 1)) == []
        assert spawned(stage.wait()) == ["verifier-0"]
    stage.happen(Exited("verifier-0", 1), Exited("front-0", -9))
    (over,) = stage.happen(Exited("drafter-0", -9))
    assert isinstance(over, Over)
    assert (over.code, over.name) == (1, "verifier-0")


def test_a_verifier_that_once_served_is_never_given_up() -> None:
    stage = Stage().up()
    for _ in range(ATTEMPTS * 2):
        stage.happen(Said("verifier-0", "failed", {"detail": {"error": "no memory"}}))
        stage.happen(Exited("verifier-0", 1))
        assert spawned(stage.wait()) == ["verifier-0"]


def test_without_drafters_a_service_is_up_all_the_same() -> None:
    stage = Stage()
    stage.happen(Tick())
    stage.ready("front-0")
    stage.ready("verifier-0")
    assert not stage.is_up()
    stage.happen(Said("drafter-0", "failed", {"detail": {"error": "no such method"}}))
    stage.happen(Exited("drafter-0", 1))
    assert stage.is_up()
    assert spawned(stage.wait()) == ["drafter-0"]


def test_a_stop_takes_one_role_after_the_other() -> None:
    stage = Stage().up()
    assert stage.happen(StopAsked()) == [Tell("front-0", DRAIN)]
    assert stage.happen(Said("front-0", "draining", {})) == []
    assert stage.happen(Exited("front-0", 0)) == [Tell("verifier-0", DRAIN)]
    assert stage.happen(Exited("verifier-0", 0)) == [Tell("drafter-0", DRAIN)]
    assert stage.happen(Exited("drafter-0", 0)) == [Over(0)]


def test_a_child_that_does_not_end_is_killed_in_time() -> None:
    stage = Stage().up()
    stage.happen(StopAsked())
    assert stage.core.deadline() == CHILDREN[0].config.drain_seconds + MARGIN
    assert stage.wait() == [Kill("front-0")]
    assert stage.core.deadline() == float("inf")


def test_a_second_stop_ends_all_at_once() -> None:
    stage = Stage().up()
    stage.happen(StopAsked())
    assert stage.happen(StopAsked()) == [Kill("front-0"), Kill("verifier-0"), Kill("drafter-0")]
    assert stage.happen(Exited("verifier-0", -9), Exited("front-0", -9)) == []
    assert stage.happen(Exited("drafter-0", -9)) == [Over(0)]


def test_what_is_still_loading_or_waiting_holds_up_no_stop() -> None:
    stage = Stage()
    stage.happen(Tick())
    stage.happen(Exited("drafter-0", 1))
    assert stage.happen(StopAsked()) == [Kill("front-0")]
    assert stage.happen(Exited("front-0", -9)) == [Kill("verifier-0")]
    assert stage.happen(Exited("verifier-0", -9)) == [Over(0)]
    assert stage.happen(StopAsked()) == []


@pytest.mark.parametrize("name", ["front-0", "verifier-0", "drafter-0"])
def test_what_dies_while_all_is_stopped_stays_dead(name: str) -> None:
    stage = Stage().up()
    stage.happen(StopAsked())
    stage.happen(Exited(name, 1))
    assert stage.state(name) == "ended"
    assert not any(isinstance(action, Spawn) for action in stage.wait())


def test_news_say_how_a_child_died() -> None:
    stage = Stage().up()
    news = [a for a in stage.core.handle(Exited("drafter-0", -9), 0.0) if isinstance(a, Changed)]
    assert news == [Changed("drafter-0", "waiting", "killed by signal 9; starts again in 0.5 s")]


# --- what operators ask for -----------------------------------------------------------------------------------------


def spare(number: int) -> Child:
    return Child(DrafterConfig(node_id=f"drafter-{number}"), "drafter")


def peers(actions: list[Action]) -> list[list[str]]:
    return [action.line["peers"] for action in actions if isinstance(action, Tell)]


@pytest.fixture
def scaled() -> Stage:
    """A service that is up and can have more drafters."""
    stage = Stage()
    stage.core = Supervisor(CHILDREN, 0.0, spare)
    return stage.up()


def test_more_drafters_are_started_under_free_names(scaled: Stage) -> None:
    assert spawned(scaled.happen(ScaleAsked("drafter", 3))) == ["drafter-1", "drafter-2"]
    assert scaled.happen(ScaleAsked("drafter", 3)) == []
    said = scaled.happen(Said("drafter-2", "ready", {"address": "tcp://127.0.0.1:9"}))
    assert peers(said) == [["tcp://127.0.0.1:2", "tcp://127.0.0.1:9"]]


def test_too_many_drain_first_and_are_forgotten_when_they_have_ended(scaled: Stage) -> None:
    assert scaled.happen(ScaleAsked("drafter", 0)) == [Tell("drafter-0", DRAIN)]
    assert scaled.is_up()
    ended = scaled.happen(Exited("drafter-0", 0))
    assert peers(ended) == [[]]
    assert set(scaled.core.members) == {"front-0", "verifier-0"}
    assert spawned(scaled.happen(ScaleAsked("drafter", 1))) == ["drafter-0"]


def test_one_that_drains_is_not_counted_and_its_name_not_given_again(scaled: Stage) -> None:
    scaled.happen(ScaleAsked("drafter", 0))
    assert spawned(scaled.happen(ScaleAsked("drafter", 1))) == ["drafter-1"]


def test_one_that_drains_too_long_is_killed_and_stays_away(scaled: Stage) -> None:
    scaled.happen(DrainAsked("drafter-0"))
    assert scaled.wait() == [Kill("drafter-0")]
    scaled.happen(Exited("drafter-0", -9))
    assert "drafter-0" not in scaled.core.members


def test_one_that_waits_for_its_next_start_is_just_forgotten(scaled: Stage) -> None:
    scaled.happen(Exited("drafter-0", 1))
    assert scaled.happen(DrainAsked("drafter-0")) == []
    assert "drafter-0" not in scaled.core.members


def test_a_guest_is_dialled_until_it_is_drained(scaled: Stage) -> None:
    far = Registered("far", "drafter", "tcp://10.0.0.7:7400")
    assert peers(scaled.happen(far)) == [["tcp://127.0.0.1:2", "tcp://10.0.0.7:7400"]]
    assert peers(scaled.happen(DrainAsked("far"))) == [["tcp://127.0.0.1:2"]]


def test_a_stop_does_not_wait_for_guests_and_ends_who_drains(scaled: Stage) -> None:
    scaled.happen(Registered("far", "drafter", "tcp://10.0.0.7:7400"))
    scaled.happen(DrainAsked("drafter-0"))
    scaled.happen(StopAsked())
    scaled.happen(Exited("front-0", 0), Exited("verifier-0", 0))
    assert scaled.happen(Exited("drafter-0", 0)) == [Over(0)]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        (ScaleAsked("verifier", 2), "role"),
        (ScaleAsked("drafter", -1), "count"),
        (ScaleAsked("drafter", 257), "count"),
        (DrainAsked("nobody"), "node_id"),
        (DrainAsked("front-0"), ""),
        (DrainAsked("verifier-0"), ""),
        (Registered("far", "front", "tcp://10.0.0.7:1"), "role"),
        (Registered("", "drafter", "tcp://10.0.0.7:1"), "node_id"),
        (Registered("drafter-0", "drafter", "tcp://10.0.0.7:1"), "node_id"),
        (Registered("far", "drafter", "http://10.0.0.7:1"), "address"),
    ],
)
def test_what_cannot_be_had_is_refused_and_changes_nothing(
    scaled: Stage, wish: Wish, field: str
) -> None:
    before = (set(scaled.core.members), dict(scaled.core.guests))
    with pytest.raises(RefusedError) as refused:
        scaled.happen(wish)
    assert refused.value.field == field
    assert (set(scaled.core.members), dict(scaled.core.guests)) == before


def test_a_service_without_spare_drafters_says_so() -> None:
    stage = Stage().up()
    with pytest.raises(RefusedError, match="can add no process"):
        stage.happen(ScaleAsked("drafter", 2))
    assert stage.happen(ScaleAsked("drafter", 0)) == [Tell("drafter-0", DRAIN)]
