"""The drafter's copy of a request under commits, guesses and rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.mirror import Kept, Mirror
from protocol.errors import PeerError
from protocol.messages import DraftTailStream, VerifyCommit
from tests.drafter.stories import mirror_of


def told(*guesses: int, output: tuple[int, ...] = (1, 2)) -> Mirror:
    """A mirror whose guesses the verifier knows."""
    mirror = mirror_of((9,), output, ahead=8)
    mirror.extend(guesses, [0.5] * len(guesses))
    mirror.take()
    return mirror


def final(start: int, *tokens: int, ahead: int = 8) -> VerifyCommit:
    return VerifyCommit(1, 1, start, tokens, ahead)


def row(base: int, start: int, *tokens: int) -> DraftTailStream:
    return DraftTailStream(1, 1, base, start, tokens, (0.5,) * len(tokens))


def test_the_first_row_settles_the_base_even_without_guesses() -> None:
    mirror = mirror_of((9,), (1, 2))
    assert mirror.unsaid
    assert mirror.take() == row(2, 2)
    assert not mirror.unsaid


def test_guesses_are_told_once() -> None:
    mirror = mirror_of((9,), (1, 2))
    mirror.extend((3, 4), (0.5, 0.5))
    assert mirror.take() == row(2, 2, 3, 4)
    mirror.extend((5,), (0.5,))
    assert mirror.take() == row(2, 4, 5)


def test_a_full_match_keeps_the_guesses_after_it() -> None:
    mirror = told(3, 4, 5)
    assert mirror.adopt(final(2, 3, 4)) == Kept(tokens=5, true=4)
    assert (mirror.line, mirror.base, mirror.confidences) == ([1, 2, 3, 4, 5], 4, [0.5])
    assert mirror.take() == row(4, 5)


def test_a_first_difference_cuts_the_line_there() -> None:
    mirror = told(3, 4, 5)
    assert mirror.adopt(final(2, 3, 9, 8)) == Kept(tokens=3, true=3)
    assert (mirror.line, mirror.base, mirror.confidences) == ([1, 2, 3, 9, 8], 5, [])
    mirror.extend((7,), (0.5,))
    assert mirror.take() == row(5, 5, 7)


def test_guesses_that_run_out_count_as_a_difference() -> None:
    mirror = told(3)
    assert mirror.adopt(final(2, 3, 4)) == Kept(tokens=3, true=3)
    assert (mirror.line, mirror.base, mirror.confidences) == ([1, 2, 3, 4], 4, [])
    assert mirror.take() == row(4, 4)


def test_guesses_made_before_a_commit_but_told_after_it_start_at_the_base() -> None:
    mirror = told()
    mirror.extend((3, 4, 5), (0.5, 0.5, 0.5))
    mirror.adopt(final(2, 3, 4))
    assert mirror.take() == row(4, 4, 5)


def test_a_commit_elsewhere_is_the_peers_fault_and_changes_nothing() -> None:
    mirror = told(3, 4)
    with pytest.raises(PeerError, match="starts at 3"):
        mirror.adopt(final(3, 4))
    assert (mirror.line, mirror.base, mirror.confidences) == ([1, 2, 3, 4], 2, [0.5, 0.5])


def test_a_newer_tail_is_told_from_where_it_differs() -> None:
    mirror = told(3, 4, 5)
    mirror.replace(3, (8, 8), (0.5, 0.5))
    assert (mirror.line, len(mirror.confidences)) == ([1, 2, 3, 8, 8], 3)
    assert mirror.take() == row(2, 3, 8, 8)


def test_a_mirror_sleeps_when_it_is_full_or_has_no_more_to_say() -> None:
    mirror = told(3, 4, 5)
    assert mirror.room == 5
    mirror.exhausted = True
    assert mirror.room == 0
    mirror.adopt(final(2, 3, ahead=2))
    assert mirror.room == 0  # two guesses are ahead
    mirror.adopt(final(3, 4, ahead=2))
    assert mirror.room == 1


class Verifier:
    """It knows what is final, and rebuilds the drafter's line from rows alone."""

    def __init__(self, mirror: Mirror) -> None:
        self.final = list(mirror.line)
        self.line = list(mirror.line)

    def read(self, row: DraftTailStream) -> None:
        assert row.base <= row.start
        assert len(row.tokens) == len(row.confidences)
        self.line = [*self.final[: row.base], *self.line[row.base : row.start], *row.tokens]


Deed = tuple[str, list[int], int]
deeds: st.SearchStrategy[list[Deed]] = st.lists(
    st.tuples(
        st.sampled_from(("guess", "confirm", "commit", "replace", "tell")),
        st.lists(st.integers(0, 2), min_size=1, max_size=4),
        st.integers(0, 4),
    )
)


@given(deeds)
def test_the_verifier_can_rebuild_the_line_from_rows(history: list[Deed]) -> None:
    mirror = mirror_of((9,), (1,))
    verifier = Verifier(mirror)
    for deed, tokens, number in history:
        match deed:
            case "guess":
                mirror.extend(tokens, [0.5] * len(tokens))
            case "confirm" | "commit":
                ahead = mirror.line[mirror.base : mirror.base + number] if deed == "confirm" else []
                news = (ahead + tokens) if deed == "commit" or not ahead else ahead
                verifier.final += news
                mirror.adopt(final(mirror.base, *news))
            case "replace":
                start = min(mirror.base + number, len(mirror.line))
                mirror.replace(start, tokens, [0.5] * len(tokens))
            case _:
                verifier.read(mirror.take())
        assert len(mirror.confidences) == len(mirror.line) - mirror.base
        assert mirror.line[: mirror.base] == verifier.final
    if mirror.unsaid:
        verifier.read(mirror.take())
    assert verifier.line == mirror.line
