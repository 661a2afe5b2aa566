"""Grammars in the verifier's core: who waits for one, who is refused, and where a text of one ends.

The target counts up, and the only text of the grammar is 4, 5, 6.
"""

from collections.abc import Sequence
from typing import Final

from protocol.messages import (
    Abort,
    Done,
    DraftClose,
    DraftSync,
    Emit,
    Ending,
    Grammar,
    Limits,
    Refuse,
)
from tests.verifier.rig import END, Letters, tokens
from tests.verifier.test_core import DRAFTER, FRONT, Rig
from verifier.commit import Output
from verifier.matcher import Masks, Matcher, Unchecked
from verifier.step import Verdict

GRAMMAR, OTHER = Grammar("regex", "efg"), Grammar("regex", "xyz")
TEXT: Final = (4, 5, 6)


class Line(Matcher):
    """One text; the end token may come after `early` of its tokens, and nothing after all of them."""

    def __init__(self, text: Sequence[int] = TEXT, early: int = 99) -> None:
        self.text = list(text)
        self.early = early
        self.taken: list[int] = []

    def masks(self, drafts: Sequence[int]) -> Masks:
        raise AssertionError(f"cores do not ask about {drafts}")

    def accept(self, token: int) -> str:
        if self.finished or token not in (self.text[len(self.taken)], END):
            return f"not {token}"
        self.taken.append(token)
        return ""

    @property
    def complete(self) -> bool:
        return self.finished or len(self.taken) >= self.early

    @property
    def finished(self) -> bool:
        return self.taken == self.text or self.taken[-1:] == [END]


class Matchers(list[Line]):
    """Makes matchers and keeps them."""

    def __call__(self) -> Line:
        self.append(Line())
        return self[-1]


def ended(messages: Sequence[object]) -> list[tuple[str, str]]:
    return [(each.reason, each.detail) for each in messages if isinstance(each, Done)]


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_choice_waits_for_its_grammar_and_others_do_not_wait_for_it() -> None:
    rig = Rig()
    rig.submit(1, grammar=GRAMMAR)
    rig.submit(2, (11, 12), max_tokens=2)
    assert rig.core.fronts.grammars == [GRAMMAR]
    heard = rig.run()
    assert {each.request for each in heard if isinstance(each, Emit | Done)} == {2}
    rig.core.compiled(OTHER, Line, rig.now)
    assert rig.step() == []
    rig.core.compiled(GRAMMAR, Line, rig.now)
    heard = rig.run()
    assert tokens(heard) == [4, 5, 6]
    assert ended(heard) == [("stop", "")]
    assert rig.empty


def test_each_choice_has_a_matcher_of_its_own_that_moves_with_what_is_committed() -> None:
    rig, matchers = Rig(), Matchers()
    rig.submit(1, grammar=GRAMMAR, choices=3, max_tokens=2)
    rig.core.compiled(GRAMMAR, matchers, rig.now)
    heard = rig.run()
    assert [each.taken for each in matchers] == [[4, 5]] * 3
    assert ended(heard) == [("length", "")] * 3


def test_two_requests_with_one_grammar_are_both_released() -> None:
    rig = Rig()
    rig.submit(1, grammar=GRAMMAR)
    rig.submit(2, grammar=GRAMMAR)
    rig.core.compiled(GRAMMAR, Line, rig.now)
    heard = rig.run()
    rig.core.compiled(GRAMMAR, Line, rig.now)  # asked for twice, answered twice
    assert ended(heard) == [("stop", "")] * 2
    assert rig.empty


def test_a_choice_that_is_aborted_while_it_waits_is_gone() -> None:
    rig = Rig()
    rig.submit(1, grammar=GRAMMAR)
    rig.hear(FRONT, Abort(1, "client gone"))
    assert ended(rig.says(FRONT)) == [("abort", "client gone")]
    rig.core.compiled(GRAMMAR, Line, rig.now)
    assert rig.run() == []
    assert rig.empty


def test_a_grammar_that_takes_longer_than_the_request_may_is_not_waited_for() -> None:
    rig = Rig()
    rig.submit(1, grammar=GRAMMAR, deadline=5.0)
    assert rig.core.deadline(rig.now) == 5.0
    rig.now = 6.0
    assert ended(rig.turn()) == [("abort", "deadline")]
    assert rig.empty


# --- refusals --------------------------------------------------------------------------------------------------------


def test_what_is_wrong_with_a_grammar_is_told_once_and_leaves_nothing() -> None:
    rig = Rig(Limits())
    rig.submit(1, grammar=GRAMMAR, choices=2)
    rig.submit(2, (11, 12), max_tokens=3)
    rig.step()
    assert sum(isinstance(each, DraftSync) for each in rig.says(DRAFTER)) == 3
    rig.core.compiled(GRAMMAR, "unclosed group", rig.now)
    refusals = [each for each in rig.says(FRONT) if isinstance(each, Refuse)]
    assert refusals == [Refuse("invalid", "unclosed group", 1, field="grammar")]
    assert sum(isinstance(each, DraftClose) for each in rig.says(DRAFTER)) == 2
    assert ended(rig.run()) == [("length", "")]
    assert rig.empty
    counters = rig.core.facts().counters
    assert counters["requests_refused"] == {"invalid": 1}
    assert sum(counters["requests_ended"].values()) == 1
    rig.submit(1)  # the number is free again
    assert ended(rig.run()) == [("length", "")]


def test_a_grammar_that_nobody_could_check_is_not_called_wrong() -> None:
    rig = Rig()
    rig.submit(1, grammar=GRAMMAR)
    rig.core.compiled(GRAMMAR, Unchecked("no time"), rig.now)
    assert rig.says(FRONT) == [Refuse("unchecked", "no time", 1, field="grammar")]
    assert rig.empty


# --- ends ------------------------------------------------------------------------------------------------------------


def test_tokens_behind_the_end_of_a_text_are_dropped() -> None:
    rig = Rig(Limits())
    rig.submit(1, grammar=GRAMMAR, max_tokens=8)
    rig.core.compiled(GRAMMAR, Line, rig.now)
    rig.step()  # the prompt, and 4
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    heard = rig.run()
    assert tokens(heard) == [4, 5, 6]
    assert ended(heard) == [("stop", "")]
    assert rig.empty


def output(matcher: Matcher | None, **ending: object) -> Output:
    made = Output(Ending(**({"max_tokens": 8} | ending)), frozenset({END}), Letters())  # type: ignore[arg-type]
    if matcher is not None:
        made.follow(matcher)
    return made


def test_the_end_token_ends_a_text_even_where_it_is_ignored_otherwise() -> None:
    plain = output(None, ignore_eos=True)
    assert plain.commit([4, END, 5]) == [4, END, 5]
    followed = output(Line(early=1), ignore_eos=True)
    assert followed.commit([4, END, 5]) == [4, END]
    assert (followed.finish, followed.text) == ("stop", "e")


def test_a_text_that_is_finished_ends_before_min_tokens() -> None:
    followed = output(Line(), min_tokens=6)
    assert followed.commit([4, 5, 6, 7]) == [4, 5, 6]
    assert (followed.finish, followed.text) == ("stop", "efg")


def test_the_end_of_a_text_is_no_lack_of_room() -> None:
    assert output(Line(), max_tokens=3).commit([4, 5, 6]) == [4, 5, 6]
    followed = output(Line(), max_tokens=3)
    followed.commit([4, 5, 6])
    assert followed.finish == "stop"


def test_a_stop_text_ends_a_text_that_is_not_finished() -> None:
    followed = output(Line(), stop=("f",))
    assert followed.commit([4, 5, 6]) == [4, 5]
    assert (followed.finish, followed.text) == ("stop", "e")


def test_a_token_that_the_grammar_does_not_take_is_not_committed() -> None:
    followed = output(Line())
    assert followed.commit([4, 9, 5]) == [4]
    assert (followed.finish, followed.detail) == ("error", "not 9")


def test_a_dead_end_breaks_off_a_text_with_an_error() -> None:
    rig = Rig()
    rig.submit(1, grammar=GRAMMAR)
    rig.core.compiled(GRAMMAR, Line, rig.now)
    rig.step()
    step = rig.core.plan(rig.now)
    assert step is not None
    rig.core.settle(step, [Verdict((), 0, fault="no token")], rig.now, rig.now)
    heard = rig.says(FRONT)
    assert tokens(heard) == [4]
    assert ended(heard) == [("error", "no token")]
    assert rig.core.facts().counters["requests_ended"]["error"] == 1
    assert rig.core.plan(rig.now) is None
    assert rig.empty


def test_a_dead_end_behind_accepted_drafts_keeps_them() -> None:
    rig = Rig(Limits())
    rig.submit(1, grammar=GRAMMAR)
    rig.core.compiled(GRAMMAR, Line, rig.now)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    step = rig.core.plan(rig.now)
    assert step is not None
    rig.core.settle(step, [Verdict((5,), 1, fault="no token")], rig.now, rig.now)
    heard = rig.says(FRONT)
    assert tokens(heard) == [4, 5]
    assert ended(heard) == [("error", "no token")]
    assert rig.empty


def test_a_dead_end_behind_a_whole_text_is_its_end() -> None:
    followed = output(Line(early=2))
    followed.commit([4, 5])
    assert followed.finish == ""
    followed.fail("no token")
    assert (followed.finish, followed.detail) == ("stop", "")
