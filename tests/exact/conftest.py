"""One tiny target, and prompts of every awkward length, for all tests of exactness."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from drafter.config import DrafterConfig
from tests.exact.oracle import GAP, Greedy, greedy
from tests.models import write_byte_llama

PAGE: Final = 16
CHUNK: Final = 64
LENGTHS: Final = (1, PAGE * 2 - 1, PAGE * 2, PAGE * 2 + 1, PAGE * 4, CHUNK + 1, 3 * CHUNK + 5, 40)
"""Prompts of page size x n - 1, n, n + 1, around a prefill chunk, and longer than one."""
OUTPUT: Final = 40


@dataclass(frozen=True)
class Target:
    """A checkpoint and its oracle, with prompts whose greedy answers are beyond doubt."""

    folder: Path
    model: Any
    prompts: list[list[int]]
    answers: list[Greedy]


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    folder = tmp_path_factory.mktemp("target")
    model = write_byte_llama(folder)
    prompts, answers = [], []
    for length in LENGTHS:
        prompt, answer = sure(model, length)
        prompts.append(prompt)
        answers.append(answer)
    return Target(folder, model, prompts, answers)


def sure(model: Any, length: int) -> tuple[list[int], Greedy]:  # noqa: ANN401
    """A repetitive prompt of this length whose answer keeps its gap at every position."""
    for seed in range(200):
        rng = random.Random(f"{length} {seed}")
        phrase = [rng.randrange(5, 200) for _ in range(rng.randrange(3, 12))]
        prompt = (phrase * (length // len(phrase) + 1))[:length]
        answer = greedy(model, prompt, OUTPUT)
        if answer.gap > GAP:
            return prompt, answer
    raise AssertionError(f"no prompt of {length} tokens has a sure answer")


def scripted(folder: Path, target: Target, *, right: int) -> DrafterConfig:
    """A drafter whose script is right for the first `right` of every 7 tokens, then wrong once."""
    script = folder / f"script-{right}.json"
    entries = [
        {
            "prompt": prompt,
            "output": [
                token if index % 7 < right else (token + 1) % 200
                for index, token in enumerate(answer.tokens)
            ],
        }
        for prompt, answer in zip(target.prompts, target.answers, strict=True)
    ]
    script.write_text(json.dumps({"default": [], "by_prompt": entries}))
    return DrafterConfig(node_id="drafter-0", method="scripted", script=script)
