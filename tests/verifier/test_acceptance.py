"""Acceptance rules on hand-made logits, and the worker between steps and an engine."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.attention import Reached
from engine.runner import Forward, Row
from protocol.messages import Sampling
from verifier.acceptance import RULES, Rule
from verifier.judge_torch import TorchJudge
from verifier.rules.plain import greedy, match
from verifier.step import Step, Verdict, Work
from verifier.worker import EngineWorker

V = 8
ANY = Sampling(temperature=1.0, seed=7)
Law = Callable[[Sequence[int]], Tensor]
"""The logits [V] of the token behind a prefix."""


def window(
    *drafts: int, line: Sequence[int] = (0,), sampling: Sampling = Sampling(), choice: int = 0
) -> Work:
    """The anchor is the last token of `line`."""
    return Work(
        request=1,
        tokens=(line[-1], *drafts),
        start=len(line) - 1,
        pages=(),
        drafts=len(drafts),
        draws=len(drafts) + 1,
        sampling=sampling,
        choice=choice,
    )


def peaks(*tokens: int) -> Tensor:
    """One row a token, in which that token is by far the likeliest."""
    logits_NV = torch.zeros(len(tokens), V)
    logits_NV[torch.arange(len(tokens)), list(tokens)] = 50.0
    return logits_NV


BOTH_RULES = pytest.mark.parametrize("rule", [greedy, match])


# --- greedy ---------------------------------------------------------------------------------------------------------


def test_the_table_names_every_rule() -> None:
    assert list(RULES) == ["greedy", "match", "ratio", "block", "threshold", "synthetic"]


@BOTH_RULES
@pytest.mark.parametrize("right", range(5))
def test_drafts_are_kept_up_to_the_first_that_differs(rule: Rule, right: int) -> None:
    truth = (3, 1, 4, 1, 5)
    drafts = [*truth[:right], *(7 for _ in range(4 - right))][:4]
    verdict = Verdict(truth[: right + 1], right)
    assert rule([window(*drafts)], peaks(*truth)) == [verdict]


@BOTH_RULES
def test_a_draft_that_is_right_behind_a_wrong_one_does_not_count(rule: Rule) -> None:
    assert rule([window(3, 7, 4)], peaks(3, 1, 4, 1)) == [Verdict((3, 1), 1)]


@BOTH_RULES
def test_a_window_without_drafts_is_plain_decoding(rule: Rule) -> None:
    assert rule([window()], peaks(6)) == [Verdict((6,), 0)]


@BOTH_RULES
def test_ragged_windows_are_judged_each_on_its_own_rows(rule: Rule) -> None:
    windows = [window(), window(2, 3), window(7), window(4, 7, 6)]
    logits_NV = torch.cat([peaks(1), peaks(2, 3, 4), peaks(3, 0), peaks(4, 5, 6, 7)])
    assert rule(windows, logits_NV) == [
        Verdict((1,), 0),
        Verdict((2, 3, 4), 2),
        Verdict((3,), 0),
        Verdict((4, 5), 1),
    ]


@BOTH_RULES
def test_the_lowest_of_equally_likely_tokens_is_the_likeliest(rule: Rule) -> None:
    logits_NV = torch.zeros(2, V)
    logits_NV[:, [2, 5]] = 1.0
    assert rule([window(2)], logits_NV) == [Verdict((2, 2), 1)]
    assert rule([window(5)], logits_NV) == [Verdict((2,), 0)]


# --- match: sampling with drafts is sampling ----------------------------------------------------------------------


def law(prefix: Sequence[int]) -> Tensor:
    """Logits that depend on every token before them."""
    digest = blake2b(bytes(prefix), digest_size=V).digest()
    return torch.tensor([byte / 64 for byte in digest])


def logits_of(work: Work, line: Sequence[int]) -> Tensor:
    """What the target says at the anchor and at every draft."""
    tokens = [*line, *work.tokens[1:]]
    first = len(line)
    return torch.stack([law(tokens[: first + index]) for index in range(work.draws)])


def plain(sampling: Sampling, count: int, choice: int = 0) -> list[int]:
    """A line drawn one token at a time."""
    line = [0]
    while len(line) <= count:
        work = window(line=line, sampling=sampling, choice=choice)
        line += match([work], logits_of(work, line))[0].tokens
    return line


SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 20]),
    top_p=st.sampled_from([1.0, 0.9, 0.4]),
    min_p=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=60)
@given(
    SAMPLINGS,
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=12),
)
def test_every_split_into_windows_gives_the_tokens_of_plain_sampling(
    sampling: Sampling, choice: int, windows: list[tuple[int, int]]
) -> None:
    expected = plain(sampling, 12, choice)
    line = [0]
    for length, right in windows:
        begin = len(line)
        if begin > 12:
            break
        drafts = expected[begin : begin + min(length, right)]
        drafts += [(token + 1) % V for token in expected[begin + len(drafts) : begin + length]]
        work = window(*drafts, line=line, sampling=sampling, choice=choice)
        [verdict] = match([work], logits_of(work, line))
        assert verdict.accepted == min(length, right, len(drafts))
        line += verdict.tokens
    assert line[:13] == expected[: len(line)][:13]


def test_greedy_and_sampled_rows_share_a_call_without_touching_each_other() -> None:
    asked = [
        Sampling(),
        Sampling(1.0, seed=1),
        Sampling(),
        Sampling(0.7, top_k=3, seed=2),
        Sampling(1.5, top_p=0.8, min_p=0.1, seed=3),
    ]
    lines = [[0], [0, 4], [0, 2, 2], [0, 1], [0, 5, 5, 5]]
    windows = [
        window(*[2, 3][: index % 3], line=line, sampling=each, choice=index)
        for index, (each, line) in enumerate(zip(asked, lines, strict=True))
    ]
    logits = [logits_of(work, line) for work, line in zip(windows, lines, strict=True)]
    together = match(windows, torch.cat(logits))
    alone = [match([work], rows)[0] for work, rows in zip(windows, logits, strict=True)]
    assert together == alone


def test_a_draw_depends_on_seed_choice_and_position_only() -> None:
    logits_NV = torch.zeros(1, V)

    def drawn(seed: int, choice: int, line: Sequence[int]) -> int:
        work = window(line=line, sampling=Sampling(1.0, seed=seed), choice=choice)
        return match([work], logits_NV)[0].tokens[0]

    many = range(64)
    assert [drawn(3, 1, [0] * 5) for _ in many] == [drawn(3, 1, [9] * 5)] * 64
    assert {drawn(seed, 0, [0]) for seed in many} == set(range(V))
    assert {drawn(0, choice, [0]) for choice in many} == set(range(V))
    assert {drawn(0, 0, [0] * length) for length in many if length} == set(range(V))


# --- the law ----------------------------------------------------------------------------------------------------------

DRAWS = 20_000
# At level 1e-4, for 7 degrees of freedom and for 8 x 7.
CRITICAL_7 = 29.88
CRITICAL_56 = 101.6
DRAFTERS: dict[str, Callable[[np.random.Generator], int]] = {
    "always the same": lambda _: 3,
    "skewed": lambda random: int(min(random.geometric(0.5), V) - 1),
}


def distribution(prefix: Sequence[int]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    return torch.softmax(law(prefix).double(), dim=-1).numpy()


def chi_square(
    counts: Counter[int], expected: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
) -> float:
    total = sum(counts.values())
    return float(
        sum(
            (counts[token] - total * share) ** 2 / (total * share)
            for token, share in enumerate(expected)
        )
    )


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_tokens_follow_the_target_s_law_whatever_is_drafted(drafter: str) -> None:
    random = np.random.default_rng(20)
    drafts = [(DRAFTERS[drafter](random), DRAFTERS[drafter](random)) for _ in range(DRAWS)]
    windows = [window(*pair, sampling=Sampling(1.0, seed=seed)) for seed, pair in enumerate(drafts)]
    table = {pair: logits_of(window(*pair), [0]) for pair in set(drafts)}
    verdicts = match(windows, torch.cat([table[pair] for pair in drafts]))
    firsts = Counter(verdict.tokens[0] for verdict in verdicts)
    assert chi_square(firsts, distribution([0])) < CRITICAL_7
    seconds = [verdict.tokens[:2] for verdict in verdicts if len(verdict.tokens) > 1]
    by_first: dict[int, Counter[int]] = defaultdict(Counter)
    for first, second in seconds:
        by_first[first][second] += 1
    statistic = sum(chi_square(each, distribution([0, first])) for first, each in by_first.items())
    assert statistic < CRITICAL_56
    assert sum(verdict.accepted for verdict in verdicts) > DRAWS // 50


# --- the worker -------------------------------------------------------------------------------------------------------


class Scripted:
    """An engine that answers with the given logits and notes what it was asked."""

    def __init__(self, *logits: Tensor) -> None:
        self.logits = list(logits)
        self.asked: list[list[Row]] = []

    def forward(self, rows: Sequence[Row], *, reached: Reached | None = None) -> Forward:
        self.asked.append(list(rows))
        if reached is not None:
            reached(1)
        return Forward(self.logits.pop(0), {})


def test_who_wants_to_know_of_layers_hears_of_them_while_a_forward_runs() -> None:
    heard: list[int] = []
    engine = Scripted(torch.zeros(0, V))
    EngineWorker(engine, TorchJudge(match), heard.append).run(Step((chunk(1),)))
    assert heard == [1]


def chunk(*tokens: int) -> Work:
    """A chunk of a prompt that goes on."""
    return Work(2, tokens, 0, (4,), 0, 0, Sampling(), 0)


def test_the_engine_is_asked_for_the_rows_and_their_logits() -> None:
    engine = Scripted(peaks(3, 1))
    EngineWorker(engine, TorchJudge(match)).run(Step((window(3, line=[5, 6]), chunk(8, 9))))
    assert engine.asked == [[Row((6, 3), 1, (), 2), Row((8, 9), 0, (4,), 0)]]


def test_chunks_have_empty_verdicts_in_their_places() -> None:
    engine = Scripted(peaks(3, 1, 6))
    step = Step((chunk(1, 2), window(3), chunk(4), window()))
    assert EngineWorker(engine, TorchJudge(match)).run(step) == [
        Verdict(),
        Verdict((3, 1), 1),
        Verdict(),
        Verdict((6,), 0),
    ]


def test_a_step_of_chunks_only_draws_nothing() -> None:
    engine = Scripted(torch.zeros(0, V))
    assert EngineWorker(engine, TorchJudge(match)).run(Step((chunk(1), chunk(2)))) == [
        Verdict(),
        Verdict(),
    ]


def banning(work: Work, *tokens: int, draws: int) -> Work:
    fields = {name: getattr(work, name) for name in Work.__slots__}
    return Work(**fields | {"banned": frozenset(tokens), "banned_draws": draws})


@BOTH_RULES
def test_an_end_cannot_be_drawn_before_the_least_number_of_tokens(rule: Rule) -> None:
    logits_NV = peaks(7, 7, 7, 7)
    logits_NV[:, 2] = 25.0
    step = Step((banning(window(2, 2, 7), 7, draws=2),))
    assert EngineWorker(Scripted(logits_NV), TorchJudge(rule)).run(step) == [
        Verdict((2, 2, 7, 7), 3)
    ]


@BOTH_RULES
def test_a_drafted_end_that_is_too_early_is_rejected(rule: Rule) -> None:
    logits_NV = peaks(7, 7)
    logits_NV[:, 2] = 25.0
    step = Step((banning(window(7), 7, draws=1),))
    assert EngineWorker(Scripted(logits_NV), TorchJudge(rule)).run(step) == [Verdict((2,), 0)]


@BOTH_RULES
def test_a_ban_is_of_one_row_only(rule: Rule) -> None:
    logits_NV = peaks(7, 7, 7, 7, 7)
    logits_NV[:, 2] = 25.0
    step = Step((window(7, 7), banning(window(), 7, 1, draws=9), chunk(3), window()))
    tokens = [each.tokens for each in EngineWorker(Scripted(logits_NV), TorchJudge(rule)).run(step)]
    assert tokens == [(7, 7, 7), (2,), (), (7,)]


def test_a_sampled_row_under_a_ban_never_draws_the_end() -> None:
    windows = tuple(
        banning(window(sampling=Sampling(1.0, seed=seed)), 7, draws=1) for seed in range(500)
    )
    verdicts = EngineWorker(Scripted(torch.zeros(500, V)), TorchJudge(match)).run(Step(windows))
    assert {verdict.tokens[0] for verdict in verdicts} == set(range(7))


@BOTH_RULES
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_nothing_is_left_to_be_drawn_the_choice_is_told_so(
    rule: Rule, temperature: float
) -> None:
    """Only 3 may come, and never behind a 3: the second row is a dead end, and nobody beside it feels that."""
    narrow = Sampling(temperature, allowed=(2, 3), bad_words=((2,), (3, 3)))
    step = Step((window(3, 3, sampling=narrow), window(7)))
    first, other = EngineWorker(Scripted(peaks(7, 7, 7, 7, 7)), TorchJudge(rule)).run(step)
    assert (first.tokens, first.accepted) == ((3,), 1)
    assert "no token is left" in first.fault
    assert other == Verdict((7, 7), 1)
