"""Earlier places of a tail in text that grows, is split, and is forgotten from its start."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from drafter.proposers.history import END, History, Place
from drafter.proposers.store import Store
from tests.drafter.naive import places

tokens = st.lists(st.integers(0, 2), max_size=12)


def history_of(*texts: list[int], windows: tuple[int, ...] = (2, 4), slots: int = 64) -> History:
    history = History(windows, slots)
    for text in texts[:-1]:
        history.append(text)
        history.split()
    history.append(texts[-1])
    return history


def tail(*wanted: int) -> "array[int]":
    return array("i", wanted)


def test_the_most_recent_place_comes_first() -> None:
    history = history_of([1, 2, 5, 1, 2, 6, 1, 2])
    assert history.places(tail(1, 2), 32) == [Place(2, 5), Place(2, 2)]
    assert history.after(5, 2) == tail(6, 1)


def test_a_place_at_the_end_has_nothing_to_say() -> None:
    assert history_of([7, 1, 2]).places(tail(1, 2), 32) == []


def test_no_more_places_than_asked_for() -> None:
    assert history_of([1] * 40).places(tail(1, 1, 1, 1), 3) == [Place(4, p) for p in (39, 38, 37)]


def test_places_of_a_longer_window_hide_those_of_a_shorter_one() -> None:
    history = history_of([1, 2, 3, 4, 5, 9, 4, 6, 8, 3, 4, 7])
    assert history.places(tail(1, 2, 3, 4), 32) == [Place(4, 4)]
    assert history.places(tail(0, 2, 3, 4), 32) == [Place(2, 11), Place(3, 4)]


def test_no_match_crosses_a_border() -> None:
    history = history_of([1, 2], [3, 4, 5])
    assert history.places(tail(2, 3), 32) == []
    assert history.places(tail(1, 2), 32) == []
    assert history.places(tail(2, 3, 4), 32) == [Place(2, 5)]
    assert history.after(1, 3) == tail(2, END, 3)


def test_what_is_forgotten_is_not_found() -> None:
    history = history_of([1, 2, 5], [1, 2, 6, 7, 8, 9, 1], [3])
    history.forget(4)
    assert history.places(tail(5, 1, 2), 32) == [Place(2, 6)]
    assert history.end == 13
    history.forget(12)
    assert history.places(tail(1, 2), 32) == []


@given(
    st.lists(tokens, min_size=1, max_size=5), tokens, st.integers(0, 3), st.sampled_from((1, 4, 64))
)
def test_places_are_what_a_scan_finds(
    texts: list[list[int]], wanted: list[int], forgotten: int, slots: int
) -> None:
    history = History((1, 2, 4), slots)
    starts = []
    for text in texts:
        starts.append(history.end)
        for token in text:  # one at a time or all at once is the same
            history.append([token])
        history.split()
    forgotten = min(forgotten, len(texts) - 1)
    history.forget(starts[forgotten])
    expected = places(texts[forgotten:], wanted, (1, 2, 4), 12)
    found = history.places(tail(*wanted), 12)
    # Few slots are shared by many windows; then old places may be out of reach, but none is wrong.
    assert slots < 64 or found == [
        Place(matched, starts[forgotten + number] + position)
        for matched, number, position in expected
    ]
    for length, position in found:
        assert history.after(position - length, length) == tail(*wanted)[len(wanted) - length :]


def test_a_store_forgets_the_oldest_outputs_first() -> None:
    store = Store((2,), capacity=8)
    for output in ([1, 2, 3], [1, 2, 4], [1, 2]):
        store.add(output)
    assert [store.after(p, 1) for _, p in store.places(tail(1, 2), 32)] == [tail(4), tail(3)]
    store.add([5])
    assert store.tokens == 6
    assert [store.after(p, 1) for _, p in store.places(tail(1, 2), 32)] == [tail(4)]


def test_a_store_keeps_the_end_of_an_output_that_is_longer_than_it() -> None:
    store = Store((2,), capacity=3)
    store.add([1, 2, 3, 1, 2, 4])
    assert [store.after(p, 9) for _, p in store.places(tail(1, 2), 32)] == [tail(4, END)]
    assert store.tokens == 3


def test_a_store_without_capacity_keeps_nothing() -> None:
    store = Store((2,), capacity=0)
    store.add([1, 2, 3])
    assert (store.tokens, store.places(tail(1, 2), 32)) == (0, [])


@given(st.lists(st.lists(st.integers(0, 1), max_size=9), max_size=30), st.integers(1, 20))
def test_a_store_stays_within_its_capacity(outputs: list[list[int]], capacity: int) -> None:
    store = Store((1, 2), capacity)
    kept: list[list[int]] = []
    for output in outputs:
        store.add(output)
        if output:
            kept.append(output[-capacity:])
        while sum(map(len, kept)) > capacity:
            kept.pop(0)
        assert store.tokens == sum(map(len, kept))
    expected = [
        (matched, kept[number][at]) for matched, number, at in places(kept, [0, 1], (1, 2), 32)
    ]
    found = store.places(tail(0, 1), 32)
    assert [(length, store.after(position, 1)[0]) for length, position in found] == expected
