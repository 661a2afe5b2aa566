"""How a role's loop runs, and what a broken command line says."""

import gc
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from protocol.process import Command, Control, Drain, Peers, Stop
from protocol.runtime import arguments, draw, fail, run


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.unfreeze()


class Orders(Control):
    """Commands that are there one batch after the other."""

    def __init__(self, *batches: list[Command]) -> None:
        self.batches = list(batches)

    def drain(self) -> list[Command]:
        return self.batches.pop(0) if self.batches else []


class Loop:
    """A node that has so many turns of work, notes what happens, and stops when told to or after ten turns."""

    def __init__(self, work: int = 0) -> None:
        self.work = work
        self.serving = True
        self.stopped = False
        self.story: list[object] = []

    def command(self, command: Command) -> None:
        self.story.append(command)
        self.stopped = isinstance(command, Stop)

    def turn(self) -> bool:
        self.story.append("turn")
        self.stopped = self.stopped or len(self.story) >= 10
        self.work -= 1
        return self.work >= 0

    def pause(self) -> None:
        self.story.append("pause")


def story(loop: Loop, *batches: list[Command], drain_seconds: float = 60.0) -> list[object]:
    run(loop, Orders(*batches), drain_seconds)
    return loop.story


def test_a_loop_pauses_only_when_there_was_nothing_to_do() -> None:
    expected = ["turn", "turn", "turn", "pause", "turn", "pause", Stop(), "turn"]
    assert story(Loop(work=2), [], [], [], [], [Stop()]) == expected


def test_a_node_that_stopped_in_its_turn_does_not_pause() -> None:
    loop = Loop()
    assert story(loop)[-1] == "turn"


def test_a_drain_ends_when_its_time_is_over() -> None:
    assert story(Loop(), [], [Drain()], drain_seconds=0.0) == ["turn", "pause", Drain()]


def test_other_commands_do_not_start_the_clock_of_a_drain() -> None:
    told = story(Loop(), [Peers(())], [], [Stop()], drain_seconds=0.0)
    assert told == [Peers(()), "turn", "pause", "turn", "pause", Stop(), "turn"]


class Wanted(BaseModel):
    name: str
    size: int = 3


def test_a_configuration_is_read_as_a_whole() -> None:
    given = arguments("role", Wanted, ["--config", '{"name": "a"}', "--supervised"])
    assert given == (Wanted(name="a"), True)


@pytest.mark.parametrize("config", ["{}", "nonsense", '{"name": "a", "size": "many"}'])
def test_a_broken_configuration_ends_with_code_2_and_the_reason(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments("role", Wanted, ["--config", config])
    assert ended.value.code == 2
    assert "validation error" in capsys.readouterr().err


def test_a_failure_is_one_sentence_and_code_1(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("cannot bind tcp://127.0.0.1:80")
    assert (ended.value.code, caplog.messages) == (1, ["cannot bind tcp://127.0.0.1:80"])


def test_drawn_numbers_have_64_bits_and_do_not_repeat() -> None:
    numbers = {draw() for _ in range(1000)}
    assert len(numbers) == 1000
    assert 2**63 < max(numbers) < 2**64


class World:
    """Hears whether the process would take work; notes it in the loop's own story where it changes."""

    address = ""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._last = False

    def tell(self, *, serving: bool) -> None:
        if serving != self._last:
            self._last = serving
            self._loop.story.append("serving" if serving else "not serving")

    def close(self) -> None:
        pass


def test_the_world_hears_of_a_drain_before_the_node_does_and_of_nothing_better_after() -> None:
    loop = Loop(work=1)
    run(loop, Orders([], [Drain()], [], [Stop()]), 60.0, World(loop))
    assert loop.story[:4] == ["turn", "serving", "not serving", Drain()]
    assert "serving" not in loop.story[4:]


def test_a_node_that_would_take_no_work_is_not_serving() -> None:
    loop = Loop()
    loop.serving = False
    run(loop, Orders([], [Stop()]), 60.0, World(loop))
    assert "serving" not in loop.story
