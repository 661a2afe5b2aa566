"""The dense target against `transformers`, and its answers."""

from typing import Any, NamedTuple

import pytest
import torch

from drafter.training.answers import draw, go_on
from drafter.training.target import Cache, Dense, causal
from tests.exact.training import states_of
from tests.models import END, write_byte_llama

TEXTS = [[5, 90, 12, 33, 8, 8, 41], [7, 7, 9], [200, 5, 61, 77, 130]]


class Both(NamedTuple):
    dense: Dense
    model: Any


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("target")
    model = write_byte_llama(folder)
    return Both(Dense(folder, dtype=torch.float32), model)


def test_states_and_logits_are_those_of_transformers(both: Both) -> None:
    longest = max(map(len, TEXTS))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in TEXTS])
    positions = torch.arange(longest).expand(len(TEXTS), -1)
    x, seen = both.dense.forward(ids, positions, causal, range(4))
    for row, text in enumerate(TEXTS):
        wanted = states_of(both.model, text)
        for state in range(4):
            torch.testing.assert_close(
                seen[state][row, : len(text)], wanted[state], rtol=1e-4, atol=1e-4
            )
        with torch.no_grad():
            logits = both.model(torch.tensor([text])).logits[0]
        torch.testing.assert_close(
            both.dense.logits(x[row, : len(text)]), logits, rtol=1e-4, atol=1e-3
        )


def test_over_a_cache_padding_changes_nothing(both: Both) -> None:
    """Two texts of different length end together, and are read in two pieces and then one by one."""
    texts = [TEXTS[0], TEXTS[2]]
    ids = torch.tensor([texts[0], [0, 0, *texts[1]]])
    cache = Cache(both.dense, 7, torch.tensor([0, 2]))
    pieces = []
    for start, end in ((0, 3), (3, 6), (6, 7)):
        positions, attend = cache.advance(end - start)
        pieces.append(both.dense.forward(ids[:, start:end], positions, attend)[0])
    x = both.dense.normed(torch.cat(pieces, 1))
    for row, text in enumerate(texts):
        torch.testing.assert_close(
            x[row, -len(text) :], states_of(both.model, text)[-1], rtol=1e-4, atol=1e-4
        )


def test_cold_answers_are_the_targets_own_and_end_where_it_ends(both: Both) -> None:
    wanted = []
    for text in TEXTS:
        with torch.no_grad():
            whole = both.model.generate(
                torch.tensor([text]), max_new_tokens=30, do_sample=False, eos_token_id=END
            )
        wanted.append(whole[0, len(text) :].tolist())
    ends = {END, wanted[0][2]}  # a token that the first answer has early
    cut = [next((said[: i + 1] for i, t in enumerate(said) if t in ends), said) for said in wanted]
    assert len({len(said) for said in cut}) > 1
    assert cut == go_on(
        both.dense, TEXTS, [0.0] * 3, most=30, ends=ends, generator=torch.Generator()
    )


def test_warm_draws_follow_the_distribution_and_their_seed() -> None:
    chances = torch.tensor([0.1, 0.6, 0.0, 0.3])
    logits = chances.log().expand(4000, -1)
    heat = torch.ones(4000)
    drawn = draw(logits, heat, torch.Generator().manual_seed(1))
    assert torch.equal(drawn, draw(logits, heat, torch.Generator().manual_seed(1)))
    found = torch.bincount(drawn, minlength=4) / 4000
    torch.testing.assert_close(found, chances, atol=0.03, rtol=0)
    assert draw(logits, torch.zeros(4000), torch.Generator()).eq(1).all()
