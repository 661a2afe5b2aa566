"""Heads that come with draftmesh are what their cards say they are, and as good as they say."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from drafter.checkpoints.bundled import HERE, bundled
from drafter.dataset_cli import prompts as messages
from drafter.training.corpus import read as read_corpus
from drafter.training.corpus import runs, shares_a_run
from orchestrator.bench.client import Asking, drive
from orchestrator.bench.prompts import read
from orchestrator.bench.results import Label
from orchestrator.bench.systems import Ours
from orchestrator.models import resolve
from orchestrator.settings import load
from tests.e2e.service import ROOT

TARGET = "smollm2-135m"
HEADS = sorted(path.parent for path in HERE.glob("*/*/config.json"))
BYTES = 36 << 20
PROMPTS = 12


def card(head: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((head / "card.json").read_text())
    return found


@pytest.mark.parametrize("method", ["dflash", "dspark", "eagle3"])
def test_a_head_of_each_kind_comes_with_the_default_model(method: str) -> None:
    assert bundled(TARGET, method) in HEADS


def test_all_heads_together_are_small() -> None:
    assert sum(file.stat().st_size for head in HEADS for file in head.iterdir()) <= BYTES


@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head.parent.name}-{head.name}")
def test_its_files_are_those_of_its_card(head: Path) -> None:
    hashes = card(head)["sha256"]
    assert set(hashes) == {"config.json", "model.safetensors"}
    for name, known in hashes.items():
        assert sha256((head / name).read_bytes()).hexdigest() == known


@pytest.mark.full
@pytest.mark.parametrize("prompts", ["chat", "code", "math"])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head.parent.name}-{head.name}")
def test_it_drafts_as_well_as_its_card_says(head: Path, prompts: str) -> None:
    """On the first prompts of a set, one at a time, in turn; the whole set has another mean, but not by much."""
    flags = {
        "method": head.name,
        "drafters": 1,
        "draft_length": card(head)["guesses"],
        "overlap": False,
        "verifier": {"planner": {"name": "fixed"}},
    }
    service = Ours(Label(mode="drafted"), load(flags, None))
    with service.fresh() as url:
        answers, _ = drive(url, read(prompts, PROMPTS), 1, Asking(max_tokens=64))
    emitted = sum(each.tokens for each in answers) / sum(each.rounds for each in answers)
    known = card(head)["acceptance"][f"bench-{prompts}"]["mean_emitted"]
    assert emitted == pytest.approx(known, rel=0.15)


@pytest.mark.full
def test_no_prompt_of_the_benchmark_shares_twenty_tokens_with_the_corpus() -> None:
    tokenizer = Tokenizer.from_file(str(resolve(TARGET, lambda *_: None) / "tokenizer.json"))
    files = sorted((ROOT / "orchestrator" / "bench" / "prompts").glob("*.jsonl"))
    held_out: set[bytes] = set()
    for text in messages(files):
        held_out |= runs(tokenizer.encode(text, add_special_tokens=False).ids)
    _, texts = read_corpus(HERE / TARGET / "corpus.u16.xz")
    assert (len(files), len(texts) > 2000, len(held_out) > 10_000) == (4, True, True)
    assert not any(shares_a_run(text, held_out) for text in texts)
