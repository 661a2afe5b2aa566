"""What a front door is told of a choice: scores of long texts come in several messages, everything else in one."""

from protocol.messages import Emit, Scored
from tests.verifier.rig import generation
from verifier.emissions import SCORES, emissions
from verifier.generation import Generation


def scored(count: int) -> list[Scored]:
    return [Scored(-float(number)) for number in range(count)]


def told(made: Generation) -> list[Emit]:
    return list(emissions(made))


def test_without_news_there_is_nothing_to_say() -> None:
    made = generation(1, output=[4, 5])
    assert [emit.tokens for emit in told(made)] == [(4, 5)]
    assert told(made) == []


def test_scores_of_a_long_prompt_come_in_pieces_and_the_text_with_the_last() -> None:
    made = generation(1, 3 * SCORES, output=[4, 5], prompt_logprobs=0, max_tokens=9)
    made.prompt_scores = scored(2 * SCORES + 7)
    heard = told(made)
    assert [len(emit.prompt_logprobs) for emit in heard] == [SCORES, SCORES, 7]
    assert [score for emit in heard for score in emit.prompt_logprobs] == made.prompt_scores
    assert [emit.text for emit in heard] == ["", "", "ef"]
    assert [token for emit in heard for token in emit.tokens] == [4, 5]
    assert told(made) == []


def test_a_backlog_of_scored_output_comes_in_pieces_too() -> None:
    count = SCORES + 3
    made = generation(1, output=[4] * count, logprobs=0, max_tokens=count)
    made.scores = scored(count)
    made.marks = [number % 2 == 0 for number in range(count)]
    heard = told(made)
    assert [len(emit.tokens) for emit in heard] == [SCORES, 3]
    assert [mark for emit in heard for mark in emit.drafted] == made.marks
    assert [score for emit in heard for score in emit.logprobs] == made.scores
    assert "".join(emit.text for emit in heard) == "e" * count
