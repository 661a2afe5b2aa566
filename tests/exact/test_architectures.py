"""Greedy text of every architecture in float32 is that of `transformers`, with drafts and with few pages."""

from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from drafter.config import DrafterConfig, StandaloneConfig
from engine.models.hosted import Hosted
from protocol.messages import Ending
from tests.architectures import HOSTED, make, write
from tests.cluster import Cluster
from tests.exact.conftest import Target, scripted
from tests.exact.oracle import GAP, greedy
from tests.models import write_pruned

OUTPUT = 24
PAGE, CHUNK, PAGES = 4, 24, 44
SHARED = [17, 99, 140, 17, 99, 140, 31, 64, 17, 99, 140, 8]
"""Three pages that all prompts begin with: whoever comes later finds them computed."""
LENGTHS = (1, 3, 21, 60)


class Make(Protocol):
    def __call__(self, name: str) -> Target: ...


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Make:
    @cache
    def written(name: str) -> Target:
        folder = tmp_path_factory.mktemp(name)
        model = write(name, folder)
        prompts, answers = zip(*(_sure(model, length) for length in LENGTHS), strict=True)
        return Target(folder, model, list(prompts), list(answers))

    return written


def _sure(model: Any, length: int) -> tuple[list[int], Any]:  # noqa: ANN401
    for first in range(5, 250):
        prompt = [*SHARED, *((first + 11 * place) % 250 + 5 for place in range(length))]
        answer = greedy(model, prompt, OUTPUT)
        if answer.gap > GAP:
            return prompt, answer
    raise AssertionError(f"no prompt of {length} tokens has a sure answer")


def expected(target: Target) -> list[list[int]]:
    return [answer.tokens for answer in target.answers]


@pytest.mark.parametrize("name", HOSTED)
def test_drafts_chunks_shared_pages_and_preemption(
    targets: Make, tmp_path: Path, name: str
) -> None:
    target = targets(name)
    drafted = Cluster(
        target.folder,
        [scripted(tmp_path, target, right=5)],
        draft_length=4,
        page_size=PAGE,
        max_chunk=CHUNK,
        pages=PAGES,
        implementation="transformers",
    )
    assert isinstance(drafted.engine.decoder, Hosted)
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)
    assert drafted.core.scheduler.preemptions > 0
    accepted = sum(answer.done.statistics.accepted for answer in answers if answer.done)
    rejected = sum(answer.done.statistics.drafted for answer in answers if answer.done) - accepted
    assert accepted > 10
    assert rejected > 0
    again = drafted.generate(target.prompts[2:3], Ending(OUTPUT))[0]
    assert again.tokens == target.answers[2].tokens
    assert drafted.pool.free == PAGES


@pytest.mark.parametrize(
    "name", ["LlamaForCausalLM", "GPT2LMHeadModel", "Gemma2ForCausalLM", "MixtralForCausalLM"]
)
def test_a_pruned_copy_of_the_target_drafts(targets: Make, tmp_path: Path, name: str) -> None:
    """Fewer layers, the same words: of the lean family, and of others."""
    target = targets(name)
    write_pruned(target.folder, tmp_path, [0, 2])
    drafter = DrafterConfig(
        node_id="drafter-0",
        method="standalone",
        model=tmp_path,
        target=target.folder,
        dtype="float32",
    )
    drafted = Cluster(target.folder, [drafter], draft_length=4, page_size=PAGE, max_chunk=CHUNK)
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)
    assert sum(answer.done.statistics.drafted for answer in answers if answer.done) > 20
    drafted.settle()
    assert len(drafted.drafters["drafter-0"].core) == 0


def test_a_draft_model_of_another_family_and_another_vocabulary(
    targets: Make, tmp_path: Path
) -> None:
    """GPT-2 drafts for Gemma 2: it knows the same bytes by other numbers, and has half the context."""
    target = targets("Gemma2ForCausalLM")
    make("GPT2LMHeadModel").save_pretrained(tmp_path)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=True)
    foreign = Tokenizer(models.BPE({word: n for n, word in enumerate(alphabet)}, merges=[]))
    foreign.decoder = decoders.ByteLevel()
    foreign.save(str(tmp_path / "tokenizer.json"))
    drafter = DrafterConfig(
        node_id="drafter-0",
        method="standalone",
        model=tmp_path,
        target=target.folder,
        dtype="float32",
        context=60,
        standalone=StandaloneConfig(use_heterogeneous_vocab=True),
    )
    drafted = Cluster(target.folder, [drafter], draft_length=4, page_size=PAGE, max_chunk=CHUNK)
    answers = drafted.generate(target.prompts, Ending(OUTPUT))
    assert [answer.tokens for answer in answers] == expected(target)
    counts = [answer.done.statistics.drafted for answer in answers if answer.done]
    assert min(counts[:3]) > 10
    assert counts[3] == 0
