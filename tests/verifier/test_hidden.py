"""What goes into one frame: rows in order, read at once, as many as there is room for, the rest in the next one."""

from collections import Counter
from collections.abc import Sequence

from engine.pages import PagePool
from protocol.link import LinkUp
from protocol.messages import (
    AnyMessage,
    DraftContext,
    DraftSync,
    Ending,
    Limits,
    Submit,
    VerifyCommit,
)
from protocol.tensor import Tensor
from verifier.commit import Output
from verifier.config import PlannerConfig
from verifier.drafting import Drafting
from verifier.generation import Generation
from verifier.hidden import FRAME_SPANS, Hidden, Span
from verifier.planners.fixed import Fixed

LINK = 7
PROMPT = tuple(range(1, 11))


class Silent:
    def step(self, _token: int) -> str:
        return ""


class Rig:
    """A drafter that needs rows (or not), and rows that say which position they are of."""

    def __init__(self, *, needs: bool = True, recent: int = 0, frame_rows: int = 1000) -> None:
        self.reads: list[int] = []
        self.drafting = Drafting(Fixed(PlannerConfig(draft_length=2)), 100, Counter())
        self.drafting.hidden = Hidden(self.rows, 1, recent, frame_bytes=frame_rows)
        said = ("hidden",) if needs else ()
        self.drafting.link_up(LinkUp(LINK, "drafter", "d", Limits(), "eagle3", needs=said))
        self.pool = PagePool(1000, 4)

    def rows(self, spans: Sequence[Span]) -> list[Tensor]:
        self.reads.append(len(spans))
        return [
            Tensor("uint8", (end - start, 1), bytes(range(start, end))) for _, start, end in spans
        ]

    def bound(self, number: int = 1, computed: int = 0) -> Generation:
        submit = Submit(number, PROMPT, Ending(50))
        output = Output(submit.ending, frozenset(), Silent())
        generation = Generation(number, 1, submit, 0, 0.0, output, list(PROMPT))
        generation.sequence = self.pool.open(())
        self.pool.reserve(generation.sequence, 16)
        generation.sequence.computed = computed
        self.drafting.bind([generation], 0.0)
        return generation

    def compute(self, generation: Generation, computed: int) -> None:
        assert generation.sequence is not None
        generation.sequence.computed = computed
        self.drafting.computed(generation)

    def commit(self, generation: Generation, *tokens: int) -> None:
        assert generation.sequence is not None
        generation.output.tokens += tokens
        generation.line += tokens
        generation.sequence.computed = len(generation.line) - 1
        self.drafting.committed(generation, list(tokens))

    def said(self) -> list[tuple[str, int, list[int]]]:
        return [_of(message) for message in self.drafting.messages(LINK)]


def _of(message: AnyMessage) -> tuple[str, int, list[int]]:
    """Its name, the request, and of which positions it carries rows."""
    assert isinstance(message, DraftSync | VerifyCommit | DraftContext)
    rows = [] if message.hidden is None else list(message.hidden.data)
    assert not rows or rows[0] == message.hidden_from
    return type(message).__name__, message.request, rows


def test_a_prompt_is_told_as_it_is_computed_then_commits_bring_their_rows() -> None:
    rig = Rig()
    one = rig.bound()
    assert rig.said() == [("DraftSync", 1, [])]
    rig.compute(one, 4)
    rig.compute(one, 6)
    assert rig.said() == [("DraftContext", 1, [0, 1, 2, 3, 4, 5])]
    rig.commit(one, 11)
    assert rig.said() == [("VerifyCommit", 1, [6, 7, 8, 9])]
    rig.commit(one, 12, 13, 14)
    assert rig.said() == [("VerifyCommit", 1, [10, 11, 12])]
    assert rig.drafting.hidden
    assert rig.drafting.hidden.counters == {"rows": 13, "bytes": 13}


def test_rows_of_a_shared_prefix_go_with_the_opening() -> None:
    rig = Rig()
    rig.bound(computed=8)
    assert rig.said() == [("DraftSync", 1, list(range(8)))]


def test_a_new_mirror_may_be_told_of_recent_positions_only() -> None:
    rig = Rig(recent=3)
    one = rig.bound(computed=8)
    assert rig.said() == [("DraftSync", 1, [6, 7])]
    rig.commit(one, 11)
    assert rig.said() == [("VerifyCommit", 1, [8, 9])]


def test_all_rows_of_a_frame_are_read_at_once() -> None:
    rig = Rig()
    many = [rig.bound(number) for number in range(1, 20)]
    rig.said()
    for each in many:
        rig.commit(each, 11)
    assert len(rig.said()) == 19
    assert rig.reads == [19]


def test_what_a_frame_has_no_room_for_comes_in_the_next_ones() -> None:
    rig = Rig(frame_rows=6)
    one, two = rig.bound(1), rig.bound(2)
    rig.said()
    rig.commit(one, 11)
    rig.commit(two, 11)
    assert rig.said() == [("VerifyCommit", 1, [0, 1, 2, 3, 4, 5]), ("VerifyCommit", 2, [])]
    assert rig.said() == [("DraftContext", 1, [6, 7, 8, 9]), ("DraftContext", 2, [0, 1])]
    assert rig.said() == [("DraftContext", 2, [2, 3, 4, 5, 6, 7])]
    assert rig.said() == [("DraftContext", 2, [8, 9])]
    assert rig.said() == []


def test_a_frame_has_no_more_tensors_than_the_other_side_takes() -> None:
    rig = Rig(frame_rows=1 << 20)
    many = [rig.bound(number) for number in range(1, FRAME_SPANS + 3)]
    rig.said()
    for each in many[:-2]:
        rig.compute(each, 1)
    for each in many[-2:]:
        rig.compute(each, 1)
    assert [len(rig.said()), len(rig.said()), len(rig.said())] == [FRAME_SPANS, 2, 0]


def test_without_pages_nothing_is_said_and_nothing_is_lost() -> None:
    rig = Rig()
    one = rig.bound()
    rig.said()
    rig.commit(one, 11)
    rig.said()
    pages, one.sequence = one.sequence, None
    one.output.tokens.append(12)
    one.line.append(12)
    rig.drafting.committed(one, [12])
    assert rig.said() == [("VerifyCommit", 1, [])]
    one.sequence = pages
    rig.compute(one, 11)
    assert rig.said() == [("DraftContext", 1, [10])]


def test_a_drafter_that_needs_nothing_is_sent_nothing() -> None:
    rig = Rig(needs=False)
    one = rig.bound(computed=8)
    rig.commit(one, 11)
    assert rig.said() == [("DraftSync", 1, [])]
    assert rig.reads == []
