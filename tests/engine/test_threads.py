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


def test_one_slow_forward_sends_the_team_to_rest_and_then_it_is_tried_again() -> None:
    team = taught()
    team.ran(1, 1.5)
    for _ in range(FIRST_REST):
        assert team.threads == 1
        team.ran(1, 0.05)
    assert team.threads == 2


def test_who_is_in_the_way_again_rests_longer_up_to_a_bound() -> None:
    team = taught()
    rests = []
    for _ in range(8):
        team.ran(1, 1.5)
        rest = 0
        while team.threads == 1:
            team.ran(1, 0.05)
            rest += 1
        rests.append(rest)
    assert rests[:3] == [FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert rests[-1] == LONGEST_REST


def test_a_machine_that_is_slower_for_everybody_is_nobodys_fault() -> None:
    team = taught(seconds=0.5)
    team.ran(1, 0.4)
    assert team.threads == 2


def test_larger_forwards_are_held_against_their_own_kind() -> None:
    team = taught()
    team.ran(256, 2.0)
    assert team.threads == 2, "nobody knows what one thread takes for 256 tokens"


def test_a_single_thread_stays_one() -> None:
    team = taught(full=1)
    team.ran(1, 9.0)
    assert team.threads == 1
