"""The draft tail, rule by rule of docs/protocol.md, then against a real mirror."""

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter.mirror import Mirror
from protocol.errors import PeerError
from protocol.laws import Law, pack
from protocol.messages import DraftSync, DraftTailStream, VerifyCommit
from verifier.tail import DraftTail, Row

State = tuple[int, list[int], list[int], bool]


def opened(*final: int, granted: int = 8) -> DraftTail:
    tail = DraftTail(final, vocabulary=100)
    tail.grant(granted)
    return tail


def row(base: int, start: int, *tokens: int, confidences: Sequence[float] = ()) -> DraftTailStream:
    return DraftTailStream(1, 1, base, start, tokens, tuple(confidences))


def state(tail: DraftTail) -> State:
    """(agreed, owed tokens, ahead, cut)."""
    return tail.agreed, tail.final[tail.agreed :], tail.ahead, tail.cut


def refuses(tail: DraftTail, bad: DraftTailStream, reason: str) -> None:
    """The row is a peer fault, and nothing is different after it."""
    before = (state(tail), tail.base, list(tail.ahead), list(tail.confidences), list(tail.final))
    with pytest.raises(PeerError, match=reason):
        tail.receive(bad)
    after = (state(tail), tail.base, tail.ahead, tail.confidences, tail.final)
    assert after == before


# --- how a tail begins -------------------------------------------------------------------------------------------


def test_a_tail_is_opened_with_everything_agreed() -> None:
    assert state(opened(10, 11)) == (2, [], [], False)


def test_the_first_row_goes_behind_what_is_committed() -> None:
    tail = opened(10, 11)
    assert tail.receive(row(2, 2, 12, 13)) is Row.TAKEN
    assert state(tail) == (2, [], [12, 13], False)


def test_a_row_that_goes_on_appends() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.receive(row(0, 2, 12))
    assert state(tail) == (0, [], [10, 11, 12], False)


def test_a_row_without_tokens_says_that_the_line_ends_there() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, 12))
    tail.receive(row(0, 1))
    assert state(tail) == (0, [], [10], False)


def test_a_row_without_tokens_settles_the_base() -> None:
    tail = opened()
    tail.receive(row(0, 0))
    assert (state(tail), tail.answered) == ((0, [], [], False), True)


# --- rule 2: what cannot be ------------------------------------------------------------------------------------


def test_a_row_that_knows_more_than_was_committed_is_a_fault() -> None:
    tail = opened(10)
    tail.receive(row(1, 1, 11))
    refuses(tail, row(2, 2, 12), "knows 2 committed tokens, only 1 exist")


def test_a_row_beyond_what_was_granted_is_a_fault() -> None:
    tail = opened(granted=3)
    refuses(tail, row(0, 0, 1, 2, 3, 4), r"row ends at 4, granted was 0 \+ 3")
    tail.receive(row(0, 0, 1, 2, 3))
    refuses(tail, row(0, 3, 4), r"row ends at 4, granted was 0 \+ 3")
    refuses(tail, row(0, 4), r"row ends at 4, granted was 0 \+ 3")


def test_the_largest_grant_counts_also_after_a_smaller_one() -> None:
    tail = opened(granted=4)
    tail.grant(2)
    tail.receive(row(0, 0, 1, 2, 3, 4))
    assert len(tail.ahead) == 4


def test_before_anything_was_granted_only_empty_rows_are_right() -> None:
    tail = opened(granted=0)
    tail.receive(row(0, 0))
    refuses(tail, row(0, 0, 1), "row ends at 1")


def test_a_token_outside_of_the_vocabulary_is_a_fault() -> None:
    tail = opened()
    tail.receive(row(0, 0, 99))
    refuses(tail, row(0, 0, 1, 100), "token 100 is not below 100")


def test_confidences_must_be_one_for_each_token_or_none() -> None:
    tail = opened()
    refuses(tail, row(0, 0, 1, 2, confidences=[0.5]), "1 confidences for 2 tokens")
    refuses(tail, row(0, 0, 1, confidences=[0.5, 0.5]), "2 confidences for 1 tokens")
    refuses(tail, row(0, 0, confidences=[0.5]), "1 confidences for 0 tokens")


# --- rule 3: the drafter knows more commits than the line held ---------------------------------------------------


def test_a_newer_base_settles_what_was_owed() -> None:
    tail = opened()
    tail.commit([10, 11])
    assert state(tail) == (0, [10, 11], [], False)
    tail.receive(row(2, 2, 12))
    assert state(tail) == (2, [], [12], False)


def test_a_newer_base_settles_a_part_of_what_was_owed() -> None:
    tail = opened()
    tail.commit([10, 11, 12])
    tail.receive(row(1, 1, 11))
    assert state(tail) == (2, [12], [], False)


def test_a_newer_base_drops_the_guesses_that_were_there() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, 12))
    tail.commit([10])
    tail.commit([50])
    assert state(tail) == (1, [50], [], True)
    tail.receive(row(2, 2, 51))
    assert state(tail) == (2, [], [51], False)


def test_a_row_that_begins_behind_a_newer_base_is_a_fault() -> None:
    tail = opened()
    tail.commit([10, 11])
    refuses(tail, row(1, 2, 12), "row starts at 2, the line ends at 1")


def test_a_newer_base_ends_a_cut_so_that_a_row_far_ahead_is_a_fault() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([50])
    assert tail.cut
    refuses(tail, row(1, 2, 12), "row starts at 2, the line ends at 1")


# --- rule 4: a row that starts behind the end of the line ------------------------------------------------------------


def test_a_hole_in_the_line_is_a_fault() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10))
    refuses(tail, row(0, 2, 12), "row starts at 2, the line ends at 1")


def test_a_row_that_goes_on_with_a_cut_line_is_dropped() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([50])
    assert tail.receive(row(0, 2, 12, 13)) is Row.CUT
    assert state(tail) == (0, [50], [], True)


def test_only_rows_of_the_cut_line_are_dropped_and_the_answer_ends_it() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([50])
    tail.receive(row(0, 2, 12))
    assert tail.receive(row(1, 1, 51)) is Row.TAKEN
    assert state(tail) == (1, [], [51], False)
    refuses(tail, row(1, 3, 53), "row starts at 3")


# --- rule 5: a row that starts earlier -------------------------------------------------------------------------------


def test_a_row_replaces_what_is_ahead_from_its_start_on() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, 12, 13))
    tail.receive(row(0, 2, 22))
    assert state(tail) == (0, [], [10, 11, 22], False)


def test_a_row_may_replace_all_of_it() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.receive(row(0, 0, 20))
    assert state(tail) == (0, [], [20], False)


def test_a_row_that_starts_before_what_is_agreed_is_compared_from_there() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, 12))
    tail.commit([10, 11])
    assert state(tail) == (2, [], [12], False)
    tail.receive(row(0, 1, 11, 22))
    assert state(tail) == (2, [], [22], False)


def test_a_row_that_takes_agreed_tokens_back_contradicts_the_commit() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([10, 11])
    tail.receive(row(0, 1, 60, 61))
    assert state(tail) == (1, [11], [], True)


def test_an_earlier_row_ends_a_cut() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([10, 50])
    assert state(tail) == (1, [50], [], True)
    tail.receive(row(0, 1, 50, 51))  # the drafter changed its mind before it heard of the commit
    assert state(tail) == (2, [], [51], False)


# --- rule 6: guesses meet commits ----------------------------------------------------------------------------------


def test_a_commit_of_guesses_moves_them_over() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, 12))
    tail.commit([10, 11])
    assert state(tail) == (2, [], [12], False)


def test_a_commit_of_all_guesses_and_one_more_leaves_one_owed() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([10, 11, 12])
    assert state(tail) == (2, [12], [], False)


def test_a_commit_that_differs_cuts_the_line_at_the_difference() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, 12))
    tail.commit([10, 51])
    assert state(tail) == (1, [51], [], True)


def test_late_guesses_are_compared_with_what_is_owed() -> None:
    tail = opened()
    tail.commit([10, 11])
    tail.receive(row(0, 0, 10, 11, 12))
    assert state(tail) == (2, [], [12], False)


def test_late_guesses_that_are_wrong_are_cut() -> None:
    tail = opened()
    tail.commit([10, 11])
    tail.receive(row(0, 0, 10, 21, 22))
    assert state(tail) == (1, [11], [], True)


def test_late_guesses_that_are_right_but_few_settle_a_part() -> None:
    tail = opened()
    tail.commit([10, 11, 12])
    tail.receive(row(0, 0, 10))
    tail.receive(row(0, 1, 11))
    assert state(tail) == (2, [12], [], False)


def test_a_line_that_was_cut_is_silent_until_the_drafter_answers() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([50])
    tail.commit([51])
    assert state(tail) == (0, [50, 51], [], True)


# --- whether the drafter is up to date -------------------------------------------------------------------------------


def test_a_tail_is_answered_when_the_newest_row_knows_every_commit() -> None:
    tail = opened()
    seen = [tail.answered]
    tail.receive(row(0, 0, 10, 11))
    seen.append(tail.answered)
    tail.commit([10])
    seen.append(tail.answered)
    tail.receive(row(1, 2, 12))
    seen.append(tail.answered)
    assert (seen, tail.base) == ([False, True, False, True], 1)


def test_an_older_base_does_not_take_a_newer_one_back() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11))
    tail.commit([10])
    tail.receive(row(1, 2, 12))
    tail.receive(row(0, 3, 13))
    assert (tail.base, state(tail)) == (1, (1, [], [11, 12, 13], False))


# --- confidences ------------------------------------------------------------------------------------------------------


def test_confidences_follow_their_tokens() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, 11, confidences=[0.9, 0.8]))
    tail.receive(row(0, 2, 12, confidences=[0.7]))
    assert tail.confidences == [0.9, 0.8, 0.7]
    tail.commit([10])
    assert (tail.ahead, tail.confidences) == ([11, 12], [0.8, 0.7])
    tail.receive(row(0, 2, 22, 23, confidences=[0.2, 0.1]))
    assert (tail.ahead, tail.confidences) == ([11, 22, 23], [0.8, 0.2, 0.1])
    tail.commit([50])
    assert (tail.ahead, tail.confidences) == ([], [])


def test_confidences_of_late_guesses_are_cut_with_them() -> None:
    tail = opened()
    tail.commit([10])
    tail.receive(row(0, 0, 10, 11, 12, confidences=[0.9, 0.8, 0.7]))
    assert (tail.ahead, tail.confidences) == ([11, 12], [0.8, 0.7])


def test_a_row_without_confidences_makes_them_all_unknown() -> None:
    tail = opened()
    tail.receive(row(0, 0, 10, confidences=[0.9]))
    tail.receive(row(0, 1, 11))
    assert (tail.ahead, tail.confidences) == ([10, 11], [])
    tail.receive(row(0, 2, 12, confidences=[0.7]))  # of which token would this be the first?
    assert (tail.ahead, tail.confidences) == ([10, 11, 12], [])
    tail.receive(row(0, 0, 20, confidences=[0.6]))
    assert (tail.ahead, tail.confidences) == ([20], [0.6])


# --- with a real mirror at the other end -----------------------------------------------------------------------------

VOCABULARY = 5


def drawn(salt: str, prefix: Sequence[int]) -> int:
    """A token that depends on every token before it."""
    text = f"{salt}{list(prefix)}".encode()
    return blake2b(text, digest_size=1).digest()[0] % VOCABULARY


def truth(prefix: Sequence[int]) -> int:
    return drawn("truth", prefix)


def guess(prefix: Sequence[int]) -> int:
    """Right in most cases."""
    return truth(prefix) if drawn("luck", prefix) else drawn("guess", prefix)


class Conversation:
    """A tail and a mirror with wires between them that deliver in order, whenever it is told to."""

    def __init__(self, committed: int) -> None:
        final: list[int] = []
        while len(final) < committed:
            final.append(truth(final))
        self.tail = DraftTail(final, VOCABULARY)
        self.tail.grant(6)
        sync = DraftSync(1, 1, (), tuple(final), 6)
        self.mirror = Mirror.open(0, sync)
        self.told = len(final)
        self.drafted: set[tuple[int, ...]] = (
            set()
        )  # every prefix with the guess that was made on it
        self.down: deque[VerifyCommit] = deque()
        self.up: deque[DraftTailStream] = deque()

    def commit(self, count: int) -> None:
        """The verifier verifies a window of its tail, and adds its own token."""
        line = list(self.tail.final)
        for token in self.tail.ahead[:count]:
            line.append(truth(line))
            if line[-1] != token:
                break
        else:
            line.append(truth(line))
        self.tail.commit(line[len(self.tail.final) :])

    def tell(self) -> None:
        """The verifier says all that the drafter was not told yet."""
        final = self.tail.final
        if self.told < len(final):
            granted = 6 + len(final) - max(0, self.tail.base)
            self.tail.grant(granted)
            self.down.append(VerifyCommit(1, 1, self.told, tuple(final[self.told :]), granted))
            self.told = len(final)

    def adopt(self) -> None:
        if self.down:
            self.mirror.adopt(self.down.popleft())

    def draft(self, count: int) -> None:
        self._extend(len(self.mirror.line), min(count, self.mirror.room), turn=0)

    def redraft(self, kept: int) -> None:
        """The drafter changes its mind about its newest guesses, as drafters on hidden states do."""
        start = max(self.mirror.base, len(self.mirror.line) - kept)
        self._extend(start, min(1, len(self.mirror.line) - start), turn=kept)

    def _extend(self, start: int, count: int, turn: int) -> None:
        line = self.mirror.line[:start]
        for _ in range(count):
            line.append((guess(line) + turn) % VOCABULARY)
            self.drafted.add(tuple(line))
        if count:
            self.mirror.replace(start, line[start:], [0.5] * count)

    def say(self) -> None:
        if self.mirror.unsaid:
            self.up.append(self.mirror.take())

    def hear(self) -> None:
        if self.up:
            self.tail.receive(self.up.popleft())

    def check(self) -> None:
        tail = self.tail
        line = tail.final[: tail.agreed]
        assert not (tail.ahead and tail.owed)
        assert len(tail.confidences) == len(tail.ahead)
        assert tail.agreed <= tail.committed
        assert len(tail.ahead) <= tail.granted
        for token in tail.ahead:
            line.append(token)
            assert tuple(line) in self.drafted, "a guess that was drafted from another prefix"

    def quiet(self) -> None:
        """Deliver everything; then both sides hold the same line."""
        self.tell()
        while self.down:
            self.adopt()
        self.say()
        while self.up:
            self.hear()
            self.check()
        assert self.mirror.line == self.tail.final + self.tail.ahead
        assert (self.mirror.base, self.tail.owed, self.tail.answered) == (self.told, 0, True)


STEPS = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 6)),
    st.tuples(st.just("draft"), st.integers(1, 4)),
    st.tuples(st.just("redraft"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["tell", "adopt", "say", "hear", "hear", "adopt"])),
)


@settings(max_examples=400)
@given(st.integers(0, 3), st.lists(STEPS, max_size=60))
def test_every_guess_was_drafted_from_what_stands_before_it(
    committed: int, steps: list[tuple[str, int] | tuple[str]]
) -> None:
    talk = Conversation(committed)
    for name, *arguments in steps:
        getattr(talk, name)(*arguments)
        talk.check()
    talk.quiet()


# --- laws -------------------------------------------------------------------------------------------------------------


def row_with_laws(base: int, start: int, *tokens: int) -> DraftTailStream:
    """Each token with a law that no other has."""
    laws = [
        Law(np.array([token, 7], np.int32), np.array([0.5, 0.5], np.float32)) for token in tokens
    ]
    return DraftTailStream(1, 1, base, start, tokens, (), *pack(laws))


def laws_of(tail: DraftTail) -> list[int | None]:
    return [None if law is None else int(law.ids[0]) for law in tail.laws]


def test_laws_follow_their_tokens() -> None:
    tail = opened()
    tail.receive(row_with_laws(0, 0, 1, 2, 3))
    assert laws_of(tail) == [1, 2, 3]
    tail.commit([1])
    assert laws_of(tail) == [2, 3]
    tail.receive(row_with_laws(1, 2, 4, 5))
    assert laws_of(tail) == [2, 4, 5]
    tail.commit([6])
    assert laws_of(tail) == []


def test_guesses_with_and_without_laws_keep_to_their_own() -> None:
    tail = opened()
    tail.receive(row(0, 0, 1, 2))
    assert laws_of(tail) == []
    tail.receive(row_with_laws(0, 2, 3))
    assert laws_of(tail) == [None, None, 3]
    tail.receive(row(0, 3, 4))
    assert laws_of(tail) == [None, None, 3, None]


def test_a_row_with_an_impossible_law_changes_nothing() -> None:
    tail = opened()
    tail.receive(row_with_laws(0, 0, 1))
    ids, probs = pack([Law(np.array([3], np.int32), np.array([1.0], np.float32))])
    refuses(tail, DraftTailStream(1, 1, 0, 1, (2,), (), ids, probs), "cannot have been drawn")
