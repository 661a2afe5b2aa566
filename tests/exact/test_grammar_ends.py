"""Where outputs with a grammar end, what is said of them, and which grammars are refused."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from protocol.messages import Ending, Grammar, Refuse, Sampling, Submit
from tests.cluster import Answer, Cluster
from tests.exact.conftest import OUTPUT, Target
from tests.exact.grammars import (
    CODE,
    PERSON,
    ROOM,
    SAMPLINGS,
    cluster,
    drafter,
    ids,
    scripted,
    seen,
    undrafted,
)
from tests.exact.test_logprobs import check
from tests.models import END

GREEDY: Final = SAMPLINGS[3]
"""Of the fourth case: a person."""


@pytest.fixture(scope="module")
def person(target: Target) -> Answer:
    """What the fourth case comes to without drafts."""
    return undrafted(target)[3]


def alone(
    target: Target, folder: Path, grammar: Grammar, ending: Ending, sampling: Sampling
) -> Answer:
    """The same with drafts that are right, and without any."""
    prompt = target.prompts[3]
    bare = cluster(target, draft_length=0).generate([prompt], ending, [sampling], [grammar])
    free = Ending(ending.max_tokens, ignore_eos=True)
    whole = cluster(target, draft_length=0).generate([prompt], free, [sampling], [grammar])
    config = scripted(folder, [(prompt, [*whole[0].tokens, *ids("more")])])
    served = cluster(target, config, draft_length=8)
    drafted = served.generate([prompt], ending, [sampling], [grammar])
    assert seen(drafted) == seen(bare)
    served.settle()
    assert served.pool.free == served.pool.pages
    return drafted[0]


@pytest.mark.parametrize("place", range(9, 15))
def test_a_stop_text_inside_a_text(
    target: Target, tmp_path: Path, person: Answer, place: int
) -> None:
    text = person.text
    stop = text[place : place + 2]
    answer = alone(target, tmp_path, PERSON, Ending(96, stop=(stop,)), GREEDY)
    assert answer.text == text[: text.index(stop)]


def test_the_end_token_does_not_come_before_min_tokens(target: Target, tmp_path: Path) -> None:
    grammar, sampling = Grammar("regex", "[ab]+"), Sampling(logit_bias=((END, 50.0),))
    assert len(alone(target, tmp_path, grammar, Ending(20), sampling).tokens) == 2
    for ignore_eos in (False, True):
        ending = Ending(20, min_tokens=10, ignore_eos=ignore_eos)
        answer = alone(target, tmp_path, grammar, ending, sampling)
        assert answer.tokens[-1] == END
        assert len(answer.tokens) == 10


def test_a_length_that_ends_amid_a_text(target: Target, tmp_path: Path, person: Answer) -> None:
    answer = alone(target, tmp_path, PERSON, Ending(12), GREEDY)
    assert answer.tokens == person.tokens[:12]
    assert answer.done
    assert answer.done.reason == "length"


def test_where_nothing_can_be_drawn_a_text_breaks_off(target: Target, tmp_path: Path) -> None:
    """The request allows itself only letters, the grammar wants a digit after three of them."""
    for temperature in (0.0, 1.0):
        sampling = Sampling(temperature=temperature, allowed=tuple(ids("abc-")))
        answer = alone(target, tmp_path, CODE, ROOM, sampling)
        assert re.fullmatch("[a-c]{3}-", answer.text)
        assert answer.done
        assert answer.done.reason == "error"
        assert answer.done.detail.startswith("no token is left that may be drawn")


def test_where_nothing_else_can_be_drawn_a_whole_text_ends(target: Target, tmp_path: Path) -> None:
    sampling = Sampling(temperature=1.0, allowed=tuple(ids("ab")))
    answer = alone(target, tmp_path, Grammar("regex", "ab(cd)*"), ROOM, sampling)
    assert (answer.text, answer.done and answer.done.reason) == ("ab", "stop")


def test_dead_ends_do_not_touch_those_beside_them(target: Target) -> None:
    served = cluster(target, drafter("standalone", target), draft_length=4)
    stuck = Sampling(temperature=1.0, allowed=tuple(ids("abc-")))
    samplings = [Sampling(), stuck] * 4
    answers = served.generate(target.prompts, Ending(OUTPUT), samplings, [None, CODE] * 4)
    assert [answer.tokens for answer in answers[::2]] == [
        answer.tokens for answer in target.answers[::2]
    ]
    assert {answer.done.reason for answer in answers[1::2] if answer.done} == {"error"}


def test_logprobs_are_of_what_the_target_said_itself(target: Target) -> None:
    served = cluster(target, drafter("standalone", target), draft_length=4)
    prompts = target.prompts[3:5]
    answers = served.generate(
        prompts, ROOM, SAMPLINGS[3:5], [PERSON, PERSON], logprobs=3, prompt_logprobs=1
    )
    for prompt, answer in zip(prompts, answers, strict=True):
        assert len(answer.logprobs) == len(answer.tokens)
        check(target, [*prompt, *answer.tokens], len(prompt), answer.logprobs, 3)
        check(target, prompt, 1, answer.prompt_logprobs, 1)


# --- refusals ---------------------------------------------------------------------------------------------------------


BAD: Final = {
    Grammar("regex", "foo**"): "multiple repeat",
    Grammar("regex", "(a"): "unclosed group",
    Grammar("json_schema", "{"): "not JSON",
    Grammar("json_schema", '{"type": "strange"}'): "Invalid type",
    Grammar("lark", "nonsense"): "",
    Grammar("yaml", ""): "no grammar 'yaml'",
    Grammar("regex", "a" * 9000): "8192 are served",
}


def test_bad_grammars_are_refused_beside_a_stream(target: Target) -> None:
    served = cluster(target, drafter("standalone", target), draft_length=4)
    running = served.begin(target.prompts, Ending(OUTPUT))
    served.turns(6)
    heard = list(refusals(served, running, target))
    assert [each.request for each in heard] == list(range(500, 500 + len(BAD)))
    for refusal, words in zip(heard, BAD.values(), strict=True):
        assert (refusal.code, refusal.field) == ("invalid", "grammar")
        assert words in refusal.text
    answers = served.finish(running)
    assert [answer.tokens for answer in answers] == [each.tokens for each in target.answers]
    assert served.generate(target.prompts[3:4], ROOM, [GREEDY], [PERSON])[0].done


def refusals(served: Cluster, running: dict[int, Answer], target: Target) -> Iterator[Refuse]:
    prompt = tuple(target.prompts[0])
    served.submit(
        *(
            Submit(number, prompt, Ending(8), grammar=grammar)
            for number, grammar in enumerate(BAD, 500)
        )
    )
    for _ in range(3):
        for message in served.turn():
            if isinstance(message, Refuse):
                yield message
            else:
                served._take(running, message)
