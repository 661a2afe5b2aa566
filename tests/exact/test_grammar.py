"""Grammars with drafts (reported fault 5).

The right values are the service without drafts, and the definitions of the grammars. Drafters know nothing of grammars:
what they guess against one is rejected like any other wrong guess.
"""

import json
import logging
import re
from pathlib import Path
from typing import Final

import pytest

from drafter.config import DrafterConfig
from orchestrator.models import resolve
from protocol.messages import Done, Emit, Ending, Refuse, Sampling, Submit
from tests.cluster import Answer, Cluster
from tests.exact.conftest import OUTPUT, PAGE, Target
from tests.exact.grammars import (
    CASES,
    CODE,
    GRAMMARS,
    OBJECT,
    PERSON,
    ROOM,
    SAMPLINGS,
    VALID,
    accepted,
    cluster,
    drafter,
    ids,
    is_person,
    liking,
    scripted,
    seen,
    undrafted,
)
from tests.exact.test_teacher_forcing import chat
from tests.models import END
from verifier.text import load_tokenizer


@pytest.fixture(scope="module")
def plain(target: Target) -> list[Answer]:
    return undrafted(target)


def test_what_comes_is_a_text_of_the_grammar(plain: list[Answer]) -> None:
    for answer, (grammar, _) in zip(plain, CASES, strict=True):
        assert answer.done
        assert answer.done.reason == "stop"
        assert VALID[grammar.kind](answer.text), answer.text
        assert answer.done.statistics.rounds == len(answer.tokens) > 6
        assert (END in answer.tokens) == (grammar is CODE), "only a code may go on"


@pytest.mark.parametrize("draft_length", [1, 4, 8])
@pytest.mark.parametrize("method", ["standalone", "wrong"])
def test_drafts_change_nothing(
    target: Target, plain: list[Answer], method: str, draft_length: int
) -> None:
    drafted = cluster(target, drafter(method, target), draft_length=draft_length)
    answers = drafted.generate(target.prompts, ROOM, SAMPLINGS, GRAMMARS)
    assert seen(answers) == seen(plain)
    drafted.settle()
    assert drafted.pool.free == drafted.pool.pages


@pytest.mark.parametrize("draft_length", [1, 4, 8])
def test_right_drafts_and_an_end_inside_a_block(
    target: Target, tmp_path: Path, plain: list[Answer], draft_length: int
) -> None:
    """The script is right up to the end of the text, and then has more to say."""
    entries = [
        (prompt, [*answer.tokens, *ids('}], "more": 12')])
        for prompt, answer in zip(target.prompts, plain, strict=True)
    ]
    drafted = cluster(target, scripted(tmp_path, entries), draft_length=draft_length)
    answers = drafted.generate(target.prompts, ROOM, SAMPLINGS, GRAMMARS)
    assert seen(answers) == seen(plain)
    share = draft_length / (draft_length + 1)
    assert accepted(answers) > 0.7 * share * sum(len(answer.tokens) for answer in plain)
    drafted.settle()
    assert drafted.pool.free == drafted.pool.pages
    assert len(drafted.drafters["drafter-0"].core) == 0


@pytest.mark.parametrize("draft_length", [1, 4, 8])
def test_a_code_fence_and_a_newline_inside_a_string(
    target: Target, tmp_path: Path, caplog: pytest.LogCaptureFixture, draft_length: int
) -> None:
    """Reported fault 5: four at once, two of them without a grammar, which hear nothing of it."""
    prompts, grammars = target.prompts[:4], [PERSON, None, OBJECT, None]
    ending = Ending(OUTPUT)
    samplings = [SAMPLINGS[3], Sampling(), SAMPLINGS[2], Sampling()]
    plain = cluster(target, draft_length=0).generate(prompts, ending, samplings, grammars)
    entries = []
    for prompt, answer, grammar in zip(prompts, plain, grammars, strict=True):
        output = list(answer.tokens)
        if grammar is not None:
            fence = ids("```json")
            output[: len(fence)] = fence
            output[len(fence) :: 5] = ids("\n") * len(output[len(fence) :: 5])
        entries.append((prompt, output))
    drafted = cluster(target, scripted(tmp_path, entries), draft_length=draft_length)
    with caplog.at_level(logging.WARNING):
        answers = drafted.generate(prompts, ending, samplings, grammars)
    assert caplog.records == []
    assert seen(answers) == seen(plain)
    assert [answers[index].tokens for index in (1, 3)] == [
        target.answers[index].tokens for index in (1, 3)
    ]
    for answer in answers[::2]:
        assert answer.done
        assert 0 < answer.done.statistics.accepted < answer.done.statistics.drafted
    assert answers[0].text.startswith('{"name":"')
    assert "\n" not in answers[0].text


def test_few_pages_preempt_but_do_not_change_the_text(target: Target, plain: list[Answer]) -> None:
    pages = (max(map(len, target.prompts)) + ROOM.max_tokens) // PAGE + 1
    squeezed = cluster(target, drafter("standalone", target), draft_length=4, pages=pages)
    answers = squeezed.generate(target.prompts, ROOM, SAMPLINGS, GRAMMARS)
    assert seen(answers) == seen(plain)
    assert squeezed.core.scheduler.preemptions > 0


def test_every_choice_follows_the_grammar_on_its_own(target: Target) -> None:
    sampling = Sampling(temperature=1.0, seed=8, **liking(space=-100.0))
    texts = [
        choices(
            cluster(target, drafter("standalone", target), draft_length=length), target, sampling
        )
        for length in (0, 4)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 4
    assert all(map(is_person, texts[0]))


def choices(served: Cluster, target: Target, sampling: Sampling) -> list[str]:
    served.connect()
    served.submit(Submit(99, tuple(target.prompts[2]), ROOM, sampling, choices=4, grammar=PERSON))
    texts, ended = [""] * 4, 0
    while ended < 4:
        for message in served.turn():
            assert not isinstance(message, Refuse)
            if isinstance(message, Emit):
                texts[message.choice] += message.text
            ended += isinstance(message, Done)
    return texts


QUESTIONS: Final = (
    "Describe a person as a JSON object with a name, a kind and a count.",
    "Describe a fruit as a JSON object.",
    "Write a code of three letters, a dash and a number.",
    "Write two sentences about the sea.",
)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_default_model_follows_grammars(temperature: float) -> None:
    folder = resolve("smollm2-135m")
    prompts, grammars = chat(folder, QUESTIONS), [PERSON, OBJECT, CODE, None]
    samplings = [Sampling(temperature=temperature, seed=seed) for seed in range(4)]
    texts = {}
    for method, draft_length in (("suffix", 0), ("suffix", 8), ("standalone", 4), ("wrong", 1)):
        config = DrafterConfig(node_id="drafter-0", method=method, model=folder, dtype="float32")
        served = Cluster(folder, [config], draft_length=draft_length, max_chunk=64)
        answers = served.generate(prompts, Ending(160), samplings, grammars)
        texts[method, draft_length] = seen(answers)
        assert answers[0].done
        assert answers[0].done.reason == "stop"
        assert is_person(answers[0].text)
        assert re.fullmatch(CODE.text, answers[2].text)
        decoded = load_tokenizer(folder).decode(answers[0].tokens)
        assert decoded == answers[0].text
    assert len({json.dumps(each) for each in texts.values()}) == 1
