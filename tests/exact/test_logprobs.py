"""Log-probabilities with drafts (reported fault 2).

They are the target's, one for each emitted token, equal to scoring the whole text anew with `transformers`.
"""

from collections.abc import Sequence

import pytest
import torch

from drafter.config import DrafterConfig
from protocol.messages import Ending, Sampling, Scored
from tests.cluster import Answer, Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target


def cluster(target: Target, method: str, draft_length: int, pages: int = 256) -> Cluster:
    config = DrafterConfig(node_id="drafter-0", method=method, model=target.folder, dtype="float32")
    return Cluster(
        target.folder,
        [config],
        draft_length=draft_length,
        page_size=PAGE,
        max_chunk=CHUNK,
        pages=pages,
    )


def scores(target: Target, line: Sequence[int]) -> torch.Tensor:
    """Logarithms of P(token | those before it) for all tokens of the vocabulary; row i is about position i + 1."""
    with torch.no_grad():
        logits: torch.Tensor = target.model(torch.tensor([list(line)])).logits[0]
    return logits.log_softmax(dim=-1)


def check(
    target: Target, line: Sequence[int], begin: int, found: Sequence[Scored], top: int
) -> None:
    rows = scores(target, line)[begin - 1 : begin - 1 + len(found)]
    for row, token, scored in zip(rows, line[begin:], found, strict=False):
        assert scored.logprob == pytest.approx(float(row[token]), abs=1e-4)
        assert [value for _, value in scored.top] == pytest.approx(
            row.topk(top).values.tolist(), abs=1e-4
        )
        for token_id, value in scored.top:
            assert value == pytest.approx(float(row[token_id]), abs=1e-4)


@pytest.mark.parametrize(
    ("method", "draft_length"), [("suffix", 0), ("standalone", 4), ("wrong", 8)]
)
def test_of_the_output(target: Target, method: str, draft_length: int) -> None:
    drafted = cluster(target, method, draft_length)
    samplings = [Sampling(temperature=0.8, seed=seed, top_k=30) for seed in range(8)]
    answers = drafted.generate(target.prompts, Ending(OUTPUT), samplings, logprobs=5)
    for prompt, answer in zip(target.prompts, answers, strict=True):
        assert len(answer.logprobs) == len(answer.tokens)
        check(target, [*prompt, *answer.tokens], len(prompt), answer.logprobs, 5)


def test_penalties_do_not_show_in_them(target: Target) -> None:
    drafted = cluster(target, "standalone", 4)
    sampling = Sampling(frequency_penalty=2.0)
    answer = drafted.generate(target.prompts[:1], Ending(OUTPUT), [sampling], logprobs=0)[0]
    check(target, [*target.prompts[0], *answer.tokens], len(target.prompts[0]), answer.logprobs, 0)


@pytest.mark.parametrize("pages", [256, 24])
def test_of_the_prompt(target: Target, pages: int) -> None:
    """Longer than a chunk, cached or not, and with few pages: every token from the second on, once."""
    drafted = cluster(target, "suffix", 4, pages=pages)
    for _ in range(2):  # the second time, full pages could be shared
        answers = drafted.generate(target.prompts, Ending(4), prompt_logprobs=2)
        for prompt, answer in zip(target.prompts, answers, strict=True):
            assert len(answer.prompt_logprobs) == len(prompt) - 1
            check(target, prompt, 1, answer.prompt_logprobs, 2)
    assert drafted.pool.free == drafted.pool.pages


def test_only_who_asks_gets_them(target: Target) -> None:
    drafted = cluster(target, "standalone", 4)
    with_, without = beside(drafted, target)
    assert len(with_.logprobs) == len(with_.tokens)
    assert without.logprobs == []


def beside(drafted: Cluster, target: Target) -> tuple[Answer, Answer]:
    first = drafted.begin(target.prompts[1:2], Ending(OUTPUT), logprobs=1)
    answers = dict(first)
    second = drafted.begin(target.prompts[2:3], Ending(OUTPUT))
    answers |= second
    drafted.listen(answers)
    one, two = drafted.finish(answers)
    return one, two
