"""A team of threads gives way to a single one where another process needs the cores."""

from engine.threads import FIRST_REST, LONGEST_REST, Team


def taught(full: int = 2, seconds: float = 0.05) -> Team:
    team = Team(full)
    team.alone(4)
    for tokens in (1, 8, 64, 1):
        team.ran(tokens, seconds)
    return team


def test_a_quiet_machine_gets_all_threads() -> None:
    team = taught()
    for _ in range(100):
        assert team.threads == 2
        team.ran(1, 0.036)


def test_one_that_is_held_up_for_a_moment_goes_on() -> None:
    team = taught()
    for _ in range(50):
        team.ran(1, 0.2)  # four times what one thread takes, once in ten
        for _ in range(9):
            team.ran(1, 0.03)
        assert team.threads == 2


def test_a_very_slow_forward_sends_the_team_to_rest_and_then_it_is_tried_again() -> None:
    team = taught()
    team.ran(1, 1.5)
    for _ in range(FIRST_REST):
        assert team.threads == 1
        team.ran(1, 0.05)
    assert team.threads == 2


def test_many_that_are_a_little_slower_send_it_to_rest_too() -> None:
    team = taught()
    forwards = 0
    while team.threads == 2:
        team.ran(1, 0.075)
        forwards += 1
    assert forwards == 17  # each loses half a forward of one thread, and 8 may be lost


def test_who_is_in_the_way_again_rests_longer_up_to_a_bound() -> None:
    team = taught()
    assert rests(team, 8)[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert rests(team, 1) == [LONGEST_REST]


def test_trust_comes_back() -> None:
    team = taught()
    rests(team, 8)
    for _ in range(2000):
        team.ran(1, 0.03)
    assert rests(team, 1)[0] < 2 * FIRST_REST


def rests(team: Team, times: int) -> list[int]:
    """Forwards of each of so many rests, for each of which it is in the way."""
    found = []
    for _ in range(times):
        team.ran(1, 1.5)
        rest = 0
        while team.threads == 1:
            team.ran(1, 0.05)
            rest += 1
        found.append(rest)
    return found


def test_a_machine_that_is_slower_for_everybody_is_nobodys_fault() -> None:
    team = taught(seconds=0.5)
    team.ran(1, 0.4)
    assert team.threads == 2


def test_larger_forwards_may_take_longer() -> None:
    team = taught()
    for _ in range(50):
        team.ran(
            256, 0.19
        )  # of 64 tokens one thread had 0.05, so 0.2 is what it may have for these
    assert team.threads == 2


def test_it_learns_again_what_one_thread_takes_while_the_team_rests() -> None:
    team = taught()
    while team.threads == 2:
        team.ran(1, 0.08)  # the machine is slower than it was, for everybody
    while team.threads == 1:
        team.ran(1, 0.1)
    for _ in range(100):
        team.ran(1, 0.08)
    assert team.threads == 2


def test_a_single_thread_stays_one() -> None:
    team = taught(full=1)
    team.ran(1, 9.0)
    assert team.threads == 1
