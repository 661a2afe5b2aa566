"""Continuous batching: what the next forward computes, and who waits for pages."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.pages import PagePool
from protocol.messages import Sampling
from tests.verifier.rig import END, generation, with_tail
from verifier.config import PlannerConfig, SchedulerConfig
from verifier.generation import Generation
from verifier.planners import PLANNERS
from verifier.scheduler import FIRST_CHUNK, LEAST_CHUNK, Chunking, Scheduler
from verifier.step import Step, Work

Row = tuple[int, int, int, int]


def scheduler(
    pages: int = 64, page_size: int = 4, draft_length: int = 4, context: int = 1000, **config: Any
) -> Scheduler:
    planner = PLANNERS["fixed"](PlannerConfig(draft_length=draft_length))
    return Scheduler(SchedulerConfig(**config), planner, PagePool(pages, page_size), context)


def rows(step: Step | None) -> list[Row]:
    """(request, start, tokens, drafts) of every row."""
    return [
        (work.request, work.start, len(work.tokens), work.drafts)
        for work in (step.rows if step else ())
    ]


def advance(made: Scheduler, accepted: int = 0, seconds: float = 0.1) -> list[Row]:
    """Plan, and do to the choices what the core does after the forward."""
    step = made.plan()
    if step is not None:
        settle(made, step, accepted)
        made.chunking.measured(step.tokens, seconds)
    return rows(step)


def settle(made: Scheduler, step: Step, accepted: int = 0) -> None:
    running = {each.id: each for each in made.running}
    for work in step.rows:
        each = running[work.request]
        assert each.sequence is not None
        each.sequence.computed = work.start + len(work.tokens)
        if work.draws:
            drafts = work.tokens[len(work.tokens) - work.drafts :][:accepted]
            taken = each.output.commit([*drafts, 7])
            each.line += taken
            if each.binding:
                each.binding.tail.commit(taken)
            made.pool.truncate(each.sequence, len(each.line) - 1)
        made.pool.publish(each.sequence, each.line)
        if each.output.finish:
            made.remove(each)


def work_of(step: Step | None, request: int) -> Work:
    assert step is not None
    [work] = [each for each in step.rows if each.request == request]
    return work


# --- one choice ---------------------------------------------------------------------------------------------------


def test_nothing_to_do_is_no_step() -> None:
    assert scheduler().plan() is None


def test_a_prompt_is_computed_and_draws_its_first_token() -> None:
    made = scheduler()
    made.add(generation(1, [5, 6, 7], sampling=Sampling(0.5, seed=3)))
    work = Work(1, (5, 6, 7), 0, (0,), 0, 1, Sampling(0.5, seed=3), 0, prompt=(5, 6, 7), output=[])
    assert made.plan() == Step((work,))


def test_then_every_step_computes_the_anchor() -> None:
    made = scheduler()
    made.add(generation(1, 3))
    assert [advance(made) for _ in range(3)] == [
        [(1, 0, 3, 0)],
        [(1, 3, 1, 0)],
        [(1, 4, 1, 0)],
    ]


def test_a_long_prompt_comes_in_chunks_and_only_the_last_one_draws() -> None:
    made = scheduler(max_chunk=16)
    made.add(generation(1, 40))
    step = made.plan()
    assert (rows(step), work_of(step, 1).draws) == ([(1, 0, 16, 0)], 0)
    assert [advance(made) for _ in range(4)] == [
        [(1, 0, 16, 0)],
        [(1, 16, 16, 0)],
        [(1, 32, 8, 0)],
        [(1, 40, 1, 0)],
    ]


def test_a_window_is_the_anchor_and_its_drafts() -> None:
    made = scheduler()
    made.add(generation(1, [5, 6, 7]))
    advance(made)
    with_tail(made.running[0], 20, 21, 22)
    work = work_of(made.plan(), 1)
    assert (work.tokens, work.start, work.drafts, work.draws) == ((7, 20, 21, 22), 3, 3, 4)
    assert work.position == 4


def test_drafts_stop_where_the_room_ends() -> None:
    made = scheduler()
    made.add(generation(1, 3, max_tokens=4))
    advance(made)
    with_tail(made.running[0], 20, 21, 22, 23)
    assert rows(made.plan()) == [(1, 3, 3, 2)]  # two drafts and the target's own are the last three


def test_the_last_token_needs_no_draft() -> None:
    made = scheduler()
    made.add(generation(1, 3, max_tokens=2))
    advance(made)
    with_tail(made.running[0], 20, 21)
    assert rows(made.plan()) == [(1, 3, 1, 0)]


def test_drafts_stop_at_the_end_of_the_context() -> None:
    made = scheduler(context=8)
    made.add(generation(1, 3, max_tokens=100))
    advance(made)
    with_tail(made.running[0], 20, 21, 22, 23)
    assert rows(made.plan()) == [(1, 3, 4, 3)]  # positions 3 to 6; the token behind them is at 7


def test_a_prompt_s_last_chunk_takes_no_drafts() -> None:
    made = scheduler()
    made.add(with_tail(generation(1, 3), 20, 21))
    assert rows(made.plan()) == [(1, 0, 3, 0)]


def test_ends_are_banned_until_the_least_number_of_tokens() -> None:
    made = scheduler()
    made.add(generation(1, 3, min_tokens=4, stop_token_ids=(50,)))
    banned = []
    for _ in range(5):
        work = work_of(made.plan(), 1)
        banned.append((sorted(work.banned), work.banned_draws))
        advance(made)
    both = [50, END]
    assert banned == [(both, 3), (both, 2), (both, 1), ([], 0), ([], 0)]


def test_the_page_table_covers_the_window() -> None:
    made = scheduler(page_size=4)
    made.add(generation(1, 3))
    advance(made)
    with_tail(made.running[0], 20, 21, 22, 23)
    assert len(work_of(made.plan(), 1).pages) == 2  # positions 0 to 7


# --- several -----------------------------------------------------------------------------------------------------


def test_windows_and_a_chunk_share_one_step() -> None:
    made = scheduler()
    made.add(generation(1, 3))
    advance(made)
    with_tail(made.running[0], 20, 21)
    made.add(generation(2, 50))
    assert rows(made.plan()) == [(1, 3, 3, 2), (2, 0, 50, 0)]


def test_beside_a_prompt_that_needs_everything_drafts_get_a_quarter_of_what_windows_leave() -> None:
    made = scheduler(max_chunk=32, draft_length=16)
    for number in (1, 2):
        made.add(generation(number, 3, max_tokens=50))
    advance(made)
    for each in made.running:
        with_tail(each, *range(20, 36))
    made.add(generation(3, 50))
    assert rows(made.plan()) == [(1, 3, 5, 4), (2, 3, 4, 3), (3, 0, 23, 0)]
    made.running[2].line[4:] = []  # a prompt that needs less leaves them the rest
    assert rows(made.plan()) == [(1, 3, 14, 13), (2, 3, 14, 13), (3, 0, 4, 0)]
    made.remove(made.running[2])
    assert rows(made.plan()) == [(1, 3, 16, 15), (2, 3, 16, 15)]


def test_a_second_prompt_waits_for_the_first_one_s_chunks() -> None:
    made = scheduler(max_chunk=16)
    made.add(generation(1, 20))
    made.add(generation(2, 20))
    assert [advance(made) for _ in range(3)] == [
        [(1, 0, 16, 0)],
        [(1, 16, 4, 0), (2, 0, 12, 0)],
        [(1, 20, 1, 0), (2, 12, 8, 0)],
    ]


def test_so_many_decode_that_the_bound_is_used_up_and_a_prompt_still_goes_on() -> None:
    made = scheduler(pages=256, max_chunk=16, max_running=64)
    for number in range(1, 33):
        made.add(generation(number, 1, max_tokens=50))
    while any(each.todo != 1 for each in made.running) or made.waiting:
        advance(made)
    made.add(generation(99, 40))
    starts = [start for _ in range(4) for number, start, *_ in advance(made) if number == 99]
    assert starts == [0, 16, 32, 40]


def test_no_more_run_at_once_than_allowed() -> None:
    made = scheduler(max_running=2)
    for number in (1, 2, 3):
        made.add(generation(number, 3, max_tokens=2))
    assert [[row[0] for row in advance(made)] for _ in range(3)] == [[1, 2], [1, 2], [3]]


def test_a_queue_is_full_when_what_runs_and_waits_is() -> None:
    made = scheduler(max_running=1, max_waiting=2)
    made.add(generation(1))
    assert (made.full(2), made.full(3), len(made)) == (False, True, 1)


def test_higher_priority_first_then_the_order_of_arrival() -> None:
    made = scheduler(max_running=1)
    for number, priority in ((1, 0), (2, 5), (3, -1), (4, 5), (5, 0)):
        made.add(generation(number, 3, max_tokens=1, priority=priority))
    order = [advance(made)[0][0] for _ in range(5)]
    assert order == [2, 4, 1, 5, 3]


def test_a_prefix_that_was_computed_before_is_not_computed_again() -> None:
    made = scheduler(page_size=4)
    made.add(generation(1, 10, max_tokens=1))
    advance(made)
    made.add(generation(2, 10))
    assert (rows(made.plan()), made.running[0].cached) == ([(2, 8, 2, 0)], 8)


# --- pages -----------------------------------------------------------------------------------------------------------


def test_a_choice_waits_until_its_pages_are_there_besides_those_of_who_runs() -> None:
    made = scheduler(pages=8, page_size=4)
    for number in (1, 2, 3):
        made.add(generation(number, 9, max_tokens=2))  # three pages, and one to grow into
    assert [[row[0] for row in advance(made)] for _ in range(3)] == [[1, 2], [1, 2], [3]]
    assert made.preemptions == 0


def test_a_choice_that_is_alone_may_use_every_page() -> None:
    made = scheduler(pages=3, page_size=4)
    made.add(generation(1, 11, max_tokens=1))
    assert advance(made) == [(1, 0, 11, 0)]


def test_an_ended_choice_gives_everything_back() -> None:
    made = scheduler(pages=8)
    gone = generation(1, 9)
    made.add(gone)
    advance(made)
    before = made.pool.free
    made.remove(gone)
    made.remove(gone)
    assert (before, made.pool.free, made.running, made.plan()) == (5, 8, [], None)


def test_a_choice_that_still_waits_can_be_removed() -> None:
    made = scheduler()
    gone = generation(1)
    made.add(gone)
    made.remove(gone)
    assert (len(made), made.plan()) == (0, None)


def crowded(tokens: int = 50) -> Scheduler:
    """Three choices that hold three full pages each and want a fourth, and no page is free."""
    made = scheduler(pages=12, page_size=4)
    for number in (1, 2, 3):
        made.add(
            generation(number, [number * 10 + place for place in range(11)], max_tokens=tokens)
        )
    advance(made)
    advance(made)
    made.pool.reserve(made.pool.open([]), 4 * made.pool.free)  # somebody else holds the rest
    return made


def test_drafts_go_before_anybody_loses_pages() -> None:
    made = scheduler(pages=6, page_size=4)
    for number in (1, 2):
        made.add(generation(number, [number, 5], max_tokens=50))
    advance(made)
    made.pool.reserve(made.pool.open([]), 4 * made.pool.free)
    for each in made.running:
        with_tail(each, 20, 21, 22, 23)
    assert rows(made.plan()) == [(1, 2, 1, 0), (2, 2, 1, 0)]
    assert made.preemptions == 0


def test_the_last_in_the_queue_loses_its_pages_first() -> None:
    made = crowded()
    assert (rows(made.plan()), made.preemptions) == ([(1, 12, 1, 0), (2, 12, 1, 0)], 1)
    assert ([each.id for each in made.running], [each.id for each in made.waiting]) == (
        [1, 2],
        [3],
    )


def test_a_choice_that_lost_its_pages_comes_first_and_computes_its_line_again() -> None:
    made = crowded(tokens=4)
    made.add(generation(4, [4] * 11))
    line = list(made.running[2].line)
    ran = [advance(made) for _ in range(3)]
    assert [[row[0] for row in step] for step in ran] == [[1, 2], [1, 2], [3, 4]]
    _, start, count, _ = ran[2][0]
    assert start + count == len(line) == 13  # what is still cached need not be computed again


def test_nobody_loses_pages_to_who_stands_behind() -> None:
    made = crowded()
    made.plan()
    made.plan()
    assert (made.running[0].id, made.running[0].sequence is not None) == (1, True)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=8),
    st.integers(11, 24),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_whatever_the_pressure_everybody_finishes_and_every_page_comes_back(
    asked: list[tuple[int, int]], pages: int, accepted: int, random: Random
) -> None:
    made = scheduler(pages=pages, page_size=4, max_chunk=16, max_running=4)
    for number, (prompt, tokens) in enumerate(asked, 1):
        made.add(generation(number, [random.randrange(9)] * prompt, max_tokens=tokens))
    for _ in range(600):
        if not len(made):
            break
        for each in made.running:
            with_tail(each, *[20] * random.randrange(6))
        step = made.plan()
        assert step is not None, "nobody goes on"
        held = [page for each in made.running for page in set(pages_of(each))]
        assert len(set(held)) <= pages
        settle(made, step, accepted)
    assert (len(made), made.pool.free) == (0, pages)


def pages_of(each: Generation) -> list[int]:
    return each.sequence.pages if each.sequence else []


# --- how many tokens a forward may have ------------------------------------------------------------------------------


def chunking(**config: Any) -> Chunking:
    return Chunking(SchedulerConfig(forward_seconds=0.3, **config))


def test_a_forward_begins_with_a_modest_size() -> None:
    assert (chunking().tokens, chunking(max_chunk=32).tokens) == (FIRST_CHUNK, 32)


@pytest.mark.parametrize(
    ("tokens", "seconds", "expected"),
    [
        (256, 0.6, 128),  # far too late
        (256, 0.9, 128),  # never to less than half: something else may have taken the time
        (256, 0.36, 192),  # too late: aimed at nine tenths of the bound
        (100, 0.6, 50),  # half of what was really computed
        (256, 0.3, 256),  # just in time
        (256, 0.27, 256),
        (256, 0.18, 384),  # early: as many as surely take no longer
        (256, 0.09, 512),  # far too early
        (256, 0.0, 512),
        (192, 0.135, 384),
        (192, 0.2025, 256),  # that would be fewer
        (128, 0.09, 256),  # says nothing about larger ones
        (4, 9.0, LEAST_CHUNK),
    ],
)
def test_a_forward_s_size_follows_its_time(tokens: int, seconds: float, expected: int) -> None:
    made = chunking()
    made.tokens = 256
    made.measured(tokens, seconds)
    assert made.tokens == expected


def test_a_size_never_leaves_its_bounds() -> None:
    made = chunking(max_chunk=512)
    for _ in range(5):
        made.measured(512, 0.01)
    most = made.tokens
    for _ in range(9):
        made.measured(512, 1.0)
    assert (most, made.tokens) == (512, LEAST_CHUNK)
