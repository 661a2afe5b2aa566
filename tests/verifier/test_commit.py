"""Committing: where a choice ends, and which text is certain at any moment."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.messages import Ending
from verifier.commit import Output

END = 9


class Pieces:
    """Token i has the text `pieces[i]`; the end token has none."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = pieces

    def step(self, token: int) -> str:
        return self.pieces[token] if token < len(self.pieces) else ""


WORDS = ["a", "b", "c", "ab", "bc", "stop", " ", "é"]


def output(pieces: Sequence[str] = WORDS, **ending: Any) -> Output:
    return Output(Ending(**({"max_tokens": 100} | ending)), frozenset({END}), Pieces(pieces))


def ended(out: Output) -> tuple[list[int], str, str]:
    return out.tokens, out.text, out.finish


# --- end tokens and stop tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(5))
def test_an_end_token_anywhere_in_a_window_cuts_behind_it(place: int) -> None:
    out = output()
    window = [0, 1, 2, 0, 1]
    window[place] = END
    assert out.commit(window) == window[: place + 1]
    assert ended(out) == (window[: place + 1], "abcab"[:place], "stop")


def test_nothing_is_taken_after_the_end() -> None:
    out = output()
    out.commit([0, END])
    assert (out.commit([1, 2]), out.room, ended(out)) == ([], 0, ([0, END], "a", "stop"))


def test_an_end_token_that_is_ignored_is_a_token_like_others() -> None:
    out = output(ignore_eos=True)
    assert out.commit([0, END, 1]) == [0, END, 1]
    assert (ended(out), out.end_tokens) == (([0, END, 1], "ab", ""), frozenset())


def test_stop_tokens_end_like_end_tokens_and_the_first_of_them_counts() -> None:
    out = output(stop_token_ids=(2, 1))
    assert out.commit([0, 1, 2, END]) == [0, 1]
    assert ended(out) == ([0, 1], "a", "stop")


def test_a_stop_token_counts_although_end_tokens_are_ignored() -> None:
    out = output(stop_token_ids=(1,), ignore_eos=True)
    out.commit([END, 0, 1, 2])
    assert (ended(out), out.end_tokens) == (([END, 0, 1], "a", "stop"), frozenset({1}))


def test_a_stop_token_has_text_only_when_asked_for() -> None:
    out = output(stop_token_ids=(1,), include_stop=True)
    out.commit([0, 1, 2])
    assert ended(out) == ([0, 1], "ab", "stop")


# --- the length -----------------------------------------------------------------------------------------------------


def test_the_length_cuts_a_window() -> None:
    out = output(max_tokens=3)
    rooms = [out.room]
    assert out.commit([0, 1]) == [0, 1]
    rooms.append(out.room)
    assert out.commit([2, 0, 1]) == [2]
    rooms.append(out.room)
    assert (ended(out), rooms) == (([0, 1, 2], "abc", "length"), [3, 1, 0])


@pytest.mark.parametrize(
    ("ending", "window", "text"),
    [
        ({}, [0, END], "a"),
        ({"stop_token_ids": (1,)}, [0, 1], "a"),
        ({"stop": ("b",)}, [0, 1], "a"),
        ({"stop": ("ab",)}, [0, 1], ""),
        ({"stop": ("ab",), "include_stop": True}, [0, 1], "ab"),
    ],
)
def test_a_stop_at_the_last_token_is_a_stop_and_not_the_length(
    ending: dict[str, Any], window: list[int], text: str
) -> None:
    out = output(max_tokens=2, **ending)
    out.commit(window)
    assert ended(out) == (window, text, "stop")


def test_a_stop_one_token_after_the_last_does_not_exist() -> None:
    out = output(max_tokens=2, stop=("abc",))
    out.commit([0, 1, 2])
    assert (ended(out), out.certain) == (([0, 1], "ab", "length"), 2)


# --- stop texts ---------------------------------------------------------------------------------------------------


def test_a_stop_text_across_tokens_with_more_tokens_behind_it_in_the_same_window() -> None:
    out = output(stop=("bc",))
    assert out.commit([0, 1, 2, 0, 0, 0]) == [0, 1, 2]
    assert ended(out) == ([0, 1, 2], "a", "stop")


def test_a_stop_text_inside_of_one_token() -> None:
    out = output(["hello world"], stop=("lo w",))
    assert out.commit([0, 0]) == [0]
    assert ended(out) == ([0], "hel", "stop")


def test_a_stop_text_that_begins_inside_of_one_token_and_ends_inside_of_another() -> None:
    out = output(["one tw", "o thr", "ee"], stop=("two three",))
    out.commit([0, 1, 2])
    assert ended(out) == ([0, 1, 2], "one ", "stop")


def test_the_text_may_hold_the_stop_when_asked_for_but_nothing_behind_it() -> None:
    out = output(["hello world"], stop=("lo w",), include_stop=True)
    out.commit([0, 0])
    assert ended(out) == ([0], "hello w", "stop")


def test_of_two_stops_in_one_token_the_earlier_place_wins_whatever_the_list_says() -> None:
    out = output(["x one y two z"], stop=("two", "one"))
    out.commit([0])
    assert ended(out) == ([0], "x ", "stop")


def test_of_two_stops_at_one_place_the_first_listed_wins() -> None:
    long_first = output(["x abc"], stop=("abc", "ab"), include_stop=True)
    short_first = output(["x abc"], stop=("ab", "abc"), include_stop=True)
    long_first.commit([0])
    short_first.commit([0])
    assert (long_first.text, short_first.text) == ("x abc", "x ab")


def test_a_stop_inside_of_another_ends_at_its_own_last_token() -> None:
    out = output(stop=("abcd", "bc"))
    out.commit([0, 1, 2])
    assert ended(out) == ([0, 1, 2], "a", "stop")


def test_a_stop_that_nearly_came_does_not_spoil_the_next() -> None:
    out = output(stop=("aab",))
    out.commit([0, 0, 0, 1])
    assert ended(out) == ([0, 0, 0, 1], "a", "stop")


def test_text_that_comes_late_can_complete_a_stop() -> None:
    late = ["", "", "ab"]  # a detokenizer that holds bytes back until a character is whole
    out = output(late, stop=("ab",))
    assert out.commit([0, 1, 2, 2]) == [0, 1, 2]
    assert ended(out) == ([0, 1, 2], "", "stop")


# --- at least so many -------------------------------------------------------------------------------------------------


def test_nothing_ends_before_the_least_number_of_tokens() -> None:
    out = output(min_tokens=4, stop=("b",), stop_token_ids=(2,))
    assert out.commit([1, END, 2]) == [1, END, 2]
    assert ended(out) == ([1, END, 2], "bc", "")
    out.commit([END])
    assert ended(out) == ([1, END, 2, END], "bc", "stop")


def test_a_stop_text_that_was_complete_too_early_does_not_count_later() -> None:
    out = output(min_tokens=3, stop=("b", "xxxxxxxx"))
    out.commit([0, 1])
    released = out.text[: out.certain]
    out.commit([2])
    assert (ended(out), released) == (([0, 1, 2], "abc", ""), "ab")


def test_a_stop_text_that_began_too_early_and_ends_in_time_counts() -> None:
    out = output(min_tokens=3, stop=("abc",))
    out.commit([0, 1])
    assert out.text[: out.certain] == ""
    out.commit([2])
    assert ended(out) == ([0, 1, 2], "", "stop")


def test_the_length_ends_also_what_is_too_short() -> None:
    out = output(min_tokens=9, max_tokens=2)
    out.commit([0, END])
    assert ended(out) == ([0, END], "a", "length")


# --- what may be shown already ----------------------------------------------------------------------------------------


def test_the_beginning_of_a_stop_is_held_back_and_released_when_it_was_none() -> None:
    out = output(stop=("abc",))
    shown = []
    for token in (2, 0, 1, 1, 0):
        out.commit([token])
        shown.append(out.text[: out.certain])
    assert shown == ["c", "c", "c", "cabb", "cabb"]


def test_the_longest_beginning_counts_also_where_a_shorter_one_fits() -> None:
    out = output(stop=("aab",))
    out.commit([0, 0])
    assert out.certain == 0
    out.commit([0])
    assert out.certain == 1


def test_everything_is_certain_at_the_end() -> None:
    out = output(max_tokens=2, stop=("abc",))
    out.commit([0, 1])
    assert out.certain == 2


def test_without_stop_texts_everything_is_certain_at_once() -> None:
    out = output()
    out.commit([0, 1])
    assert out.certain == 2


# --- against the definition ----------------------------------------------------------------------------------------


def defined(
    tokens: Sequence[int], pieces: Sequence[str], ending: Ending
) -> tuple[list[int], str, str]:
    """Tokens, text and reason by the definition: look at every place, every time."""
    text, ends = "", set(ending.stop_token_ids) | (set() if ending.ignore_eos else {END})
    for count, token in enumerate(tokens, 1):
        taken, piece = list(tokens[:count]), Pieces(pieces).step(token)
        counts = count >= ending.min_tokens
        if counts and token in ends:
            shown = piece if ending.include_stop and token in ending.stop_token_ids else ""
            return taken, text + shown, "stop"
        before, text = len(text), text + piece
        hits = [
            (place, order)
            for order, stop in enumerate(ending.stop)
            for place in range(len(text))
            if text.startswith(stop, place) and place + len(stop) > before
        ]
        if counts and hits:
            place, order = min(hits)
            shown = ending.stop[order] if ending.include_stop else ""
            return taken, text[:place] + shown, "stop"
        if count == ending.max_tokens:
            return taken, text, "length"
    return list(tokens), text, ""


TEXTS = st.text("ab", max_size=4)
ENDINGS = st.builds(
    Ending,
    max_tokens=st.integers(1, 14),
    min_tokens=st.integers(0, 8),
    ignore_eos=st.booleans(),
    stop=st.lists(st.text("ab", min_size=1, max_size=5), max_size=3).map(tuple),
    stop_token_ids=st.lists(st.integers(0, 8), max_size=1).map(tuple),
    include_stop=st.booleans(),
)


@settings(max_examples=500)
@given(
    st.lists(TEXTS, min_size=1, max_size=6),
    st.lists(st.sampled_from([0, 0, 1, 1, 2, 2, 3, 4, 5, END]), max_size=16),
    ENDINGS,
    st.lists(st.integers(0, 16)),
)
def test_every_split_ends_as_defined_and_nothing_that_was_shown_is_taken_back(
    pieces: list[str], tokens: list[int], ending: Ending, cuts: list[int]
) -> None:
    out = Output(ending, frozenset({END}), Pieces(pieces))
    shown = ""
    for start, end in pairwise(sorted({0, len(tokens), *(min(cut, len(tokens)) for cut in cuts)})):
        out.commit(tokens[start:end])
        assert out.text[: out.certain].startswith(shown)
        shown = out.text[: out.certain]
    assert ended(out) == defined(tokens, pieces, ending)
    if out.finish:
        assert shown == out.text
    for stop in ending.stop:  # what is held back is never longer than it must be
        assert out.finish or len(out.text) - len(shown) < max(map(len, ending.stop)), stop
