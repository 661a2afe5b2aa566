"""What links are still to be told: notes stand alone, subjects are asked for their words when these are taken."""

from collections.abc import Iterator

from protocol.config import LinkConfig
from protocol.messages import (
    AnyMessage,
    Done,
    DraftClose,
    DraftTailStream,
    Emit,
    Ending,
    Heartbeat,
    Sampling,
    Scored,
    Statistics,
    Submit,
    VerifyCommit,
)
from protocol.outbox import BATCH_TOKENS, Outbox
from protocol.tensor import Tensor


class Story:
    """A subject that has the words it holds when it is asked, and then has none."""

    def __init__(self, number: int, tokens: int = 1) -> None:
        self.number = number
        self.tokens = tokens

    def tell(self) -> Iterator[AnyMessage]:
        if self.tokens:
            yield VerifyCommit(self.number, 1, 0, (7,) * self.tokens, 4)
        self.tokens = 0


def take(outbox: Outbox[Story], link: int) -> list[tuple[int, int]]:
    """(request, tokens) of every commit that is said now."""
    messages = outbox.take(link, Story.tell)
    return [(each.request, len(each.tokens)) for each in messages if isinstance(each, VerifyCommit)]


def test_a_subject_is_asked_when_its_words_are_taken_and_says_all_of_it_at_once() -> None:
    outbox, story = Outbox[Story](), Story(1)
    outbox.news(5, 1, story)
    story.tokens = 3
    outbox.news(5, 1, story)
    assert (outbox.links, take(outbox, 5), outbox.links, take(outbox, 5)) == ([5], [(1, 3)], [], [])


def test_subjects_speak_in_the_order_in_which_they_had_news() -> None:
    outbox = Outbox[Story]()
    for number in (3, 1, 2, 3):
        outbox.news(5, number, Story(number))
    assert take(outbox, 5) == [(3, 1), (1, 1), (2, 1)]


def test_notes_come_before_subjects() -> None:
    outbox = Outbox[Story]()
    outbox.news(5, 1, Story(1))
    outbox.note(5, DraftClose(1, 1), Heartbeat())
    outbox.note(5, DraftClose(2, 1))
    assert outbox.take(5, Story.tell) == [
        DraftClose(1, 1),
        Heartbeat(),
        DraftClose(2, 1),
        VerifyCommit(1, 1, 0, (7,), 4),
    ]


def test_links_are_told_apart_and_each_is_named_once() -> None:
    outbox = Outbox[Story]()
    outbox.note(5, Heartbeat())
    outbox.news(5, 1, Story(1))
    outbox.news(6, 1, Story(1, 2))
    assert (sorted(outbox.links), take(outbox, 6), take(outbox, 5)) == ([5, 6], [(1, 2)], [(1, 1)])


def test_what_was_forgotten_is_not_said() -> None:
    outbox = Outbox[Story]()
    outbox.news(5, 1, Story(1))
    outbox.news(5, 2, Story(2))
    outbox.forget(5, 1)
    outbox.forget(5, 9)
    outbox.forget(9, 1)
    assert (take(outbox, 5), outbox.links) == ([(2, 1)], [])


def test_nothing_is_left_of_a_link_that_is_over() -> None:
    outbox = Outbox[Story]()
    outbox.note(5, Heartbeat())
    outbox.news(5, 1, Story(1))
    outbox.drop(5)
    assert (outbox.links, take(outbox, 5)) == ([], [])


def test_a_long_backlog_is_said_in_several_frames() -> None:
    outbox = Outbox[Story]()
    for number in range(5):
        outbox.news(5, number, Story(number, BATCH_TOKENS // 2))
    taken = [take(outbox, 5) for _ in range(4)]
    half = BATCH_TOKENS // 2
    assert taken == [[(0, half), (1, half)], [(2, half), (3, half)], [(4, half)], []]


def test_a_subject_without_words_leaves_room_for_the_next() -> None:
    outbox = Outbox[Story]()
    outbox.news(5, 1, Story(1, 0))
    outbox.news(5, 2, Story(2))
    assert take(outbox, 5) == [(2, 1)]


def test_words_of_one_subject_and_notes_that_do_not_fit_come_first_in_the_next_frame() -> None:
    outbox = Outbox[int]()
    half = BATCH_TOKENS // 2

    def tell(number: int) -> Iterator[AnyMessage]:
        for start in range(3):
            yield VerifyCommit(number, 1, start, (7,) * half, 4)

    def taken() -> list[tuple[int, int]]:
        messages = outbox.take(5, tell)
        return [(each.request, each.start) for each in messages if isinstance(each, VerifyCommit)]

    for number in (1, 2):
        outbox.news(5, number, number)
    assert (taken(), outbox.links) == ([(1, 0), (1, 1)], [5])
    outbox.note(5, VerifyCommit(3, 1, 0, (7,) * half, 4), VerifyCommit(4, 1, 0, (7,) * half, 4))
    assert taken() == [(1, 2), (3, 0)]
    assert taken() == [(4, 0), (2, 0)]
    assert taken() == [(2, 1), (2, 2)]
    assert outbox.links == []


def test_scores_biases_and_histories_have_a_weight_of_their_own() -> None:
    scored = Scored(-1.0, tuple((token, -2.0) for token in range(20)))
    heavy: dict[str, AnyMessage] = {
        "scores": Emit(1, 0, (), "", prompt_logprobs=(scored,) * 2000),
        "biases": Submit(
            1, (1,), Ending(1), Sampling(logit_bias=tuple((n, 1.0) for n in range(40_000)))
        ),
        "histories": Done(1, 0, "stop", 1, 1, Statistics(history=((1, 0, 1),) * BATCH_TOKENS)),
    }
    for name, message in heavy.items():
        outbox = Outbox[Story]()
        outbox.note(5, message, message)
        assert len(outbox.take(5, Story.tell)) == 1, name


def test_rows_with_slices_stay_below_the_cap_of_tensors() -> None:
    outbox = Outbox[Story]()
    one = Tensor("int32", (1, 1), bytes(4)), Tensor("float32", (1, 1), bytes(4))
    rows = [DraftTailStream(number, 1, 0, 0, (7,), (), *one) for number in range(500)]
    outbox.note(5, *rows)
    said: list[AnyMessage] = []
    while batch := outbox.take(5, Story.tell):
        assert 2 * len(batch) <= LinkConfig().tensors
        said += batch
    assert said == rows
