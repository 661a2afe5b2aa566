"""Penalties, biases and bans with drafts (reported fault 1).

Position i of a window is scored as if the drafts before it had been output. The right values are the service without
drafts, and `transformers` where it has the same penalty.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final

import pytest
import torch

from drafter.config import DrafterConfig
from protocol.messages import Ending, Sampling
from tests.cluster import Cluster
from tests.exact.conftest import CHUNK, OUTPUT, PAGE, Target

KINDS: Final = {
    "frequency": Sampling(frequency_penalty=2.0),
    "presence": Sampling(presence_penalty=2.0),
    "repetition": Sampling(repetition_penalty=1.3),
    "negative": Sampling(frequency_penalty=-2.0, presence_penalty=-2.0),
    "bias": Sampling(logit_bias=((20, 6.0), (30, -100.0))),
    "allowed": Sampling(allowed=tuple(range(5, 60))),
    "drawn": Sampling(
        temperature=0.9, top_p=0.9, seed=11, frequency_penalty=0.7, presence_penalty=0.3
    ),
}
ENDING: Final = Ending(OUTPUT, ignore_eos=True)


def texts(target: Target, sampling: Sampling, method: str, draft_length: int) -> list[list[int]]:
    config = DrafterConfig(node_id="drafter-0", method=method, model=target.folder, dtype="float32")
    cluster = Cluster(
        target.folder, [config], draft_length=draft_length, page_size=PAGE, max_chunk=CHUNK
    )
    answers = cluster.generate(target.prompts, ENDING, [sampling] * len(target.prompts))
    return [answer.tokens for answer in answers]


def bad_words(target: Target) -> Sampling:
    """A token and a pair that the oracle would say."""
    first, second = (answer.tokens for answer in target.answers[:2])
    return Sampling(bad_words=((first[3],), tuple(second[4:6])))


@pytest.mark.parametrize("kind", [*KINDS, "bad words"])
def test_the_text_is_that_of_the_service_without_drafts(target: Target, kind: str) -> None:
    sampling = KINDS.get(kind) or bad_words(target)
    plain = texts(target, sampling, "suffix", 0)
    assert plain != [answer.tokens for answer in target.answers], "the adjustment does nothing here"
    for method, draft_length in product(("standalone", "wrong"), (1, 4, 8)):
        assert texts(target, sampling, method, draft_length) == plain, (method, draft_length)


def test_repetition_is_what_transformers_makes_of_it(target: Target) -> None:
    expected = []
    for prompt in target.prompts:
        with torch.no_grad():
            line = target.model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=OUTPUT,
                do_sample=False,
                repetition_penalty=1.3,
                suppress_tokens=[2],
            )
        expected.append(line[0, len(prompt) :].tolist())
    sampling = Sampling(repetition_penalty=1.3, logit_bias=((2, -100.0),))
    assert texts(target, sampling, "standalone", 4) == expected


def test_banned_and_disallowed_tokens_never_come(target: Target) -> None:
    for line in texts(target, KINDS["allowed"], "wrong", 4):
        assert set(line) <= set(KINDS["allowed"].allowed)
    banned = bad_words(target)
    for line in texts(target, banned, "standalone", 4):
        assert not any(holds(line, word) for word in banned.bad_words)


def holds(line: Sequence[int], word: Sequence[int]) -> bool:
    return any(
        list(line[start : start + len(word)]) == list(word)
        for start in range(len(line) - len(word) + 1)
    )
