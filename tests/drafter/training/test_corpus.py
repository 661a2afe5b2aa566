"""The corpus file: what is written is read, and a run that was killed goes on where it is whole."""

import json
import lzma
import random
from dataclasses import replace
from pathlib import Path

import pytest

from drafter.dataset_cli import prompts
from drafter.training.corpus import (
    Corpus,
    CorpusError,
    Header,
    Text,
    join,
    read,
    runs,
    shares_a_run,
)
from drafter.training.templates import Templates, misspelled
from orchestrator.bench.prompts import read as bench
from orchestrator.bench.prompts import sets

HEADER = Header(target="t", seed=0, before=(1, 2), between=(3,), settings="s")
TEXTS = [
    Text("math", sampled=False, question=(5, 65535), answer=(9,)),
    Text("edit", sampled=True, question=(), answer=(0, 1, 2)),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "c.u16", HEADER)
    corpus.append(TEXTS[:1])
    corpus.append(TEXTS[1:])
    header, texts = read(tmp_path / "c.u16")
    assert texts == TEXTS
    assert (header.before, header.between, header.batches) == ((1, 2), (3,), 2)


def test_a_batch_that_was_cut_off_is_forgotten(tmp_path: Path) -> None:
    """Killed between writing a batch and saying so: the next run writes it anew, and nothing is doubled."""
    path = tmp_path / "c.u16"
    Corpus(path, HEADER).append(TEXTS[:1])
    with path.open("ab") as file:
        file.write(b"\x01\x00\x05")
    assert read(path)[1] == TEXTS[:1]
    again = Corpus(path, HEADER)
    again.append(TEXTS[1:])
    assert read(path)[1] == TEXTS


def test_a_corpus_goes_on_with_its_own_settings_only(tmp_path: Path) -> None:
    Corpus(tmp_path / "c.u16", HEADER)
    with pytest.raises(CorpusError, match="other settings"):
        Corpus(tmp_path / "c.u16", replace(HEADER, seed=1))


def test_a_packed_corpus_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "c.u16"
    Corpus(path, HEADER).append(TEXTS)
    (tmp_path / "c.u16.xz").write_bytes(lzma.compress(path.read_bytes()))
    assert read(tmp_path / "c.u16.xz")[1] == TEXTS


def test_corpora_of_one_target_become_one(tmp_path: Path) -> None:
    first, second, out = (tmp_path / name for name in ("a.u16", "b.u16", "c.u16"))
    Corpus(first, HEADER).append(TEXTS[:1])
    Corpus(second, replace(HEADER, seed=1, settings="other")).append(TEXTS[1:])
    join([first, second], out)
    header, texts = read(out)
    assert texts == TEXTS
    assert header.settings == "s + other"
    with pytest.raises(CorpusError, match="exists already"):
        join([first, second], out)


def test_corpora_of_different_targets_are_not_joined(tmp_path: Path) -> None:
    first, second, out = (tmp_path / name for name in ("a.u16", "b.u16", "c.u16"))
    Corpus(first, HEADER).append(TEXTS)
    Corpus(second, replace(HEADER, target="another")).append(TEXTS)
    with pytest.raises(CorpusError, match=r"b\.u16 has another target"):
        join([first, second], out)
    assert not out.exists()


def test_a_damaged_corpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.u16"
    Corpus(path, HEADER).append([Text("chat", sampled=False, question=(1,), answer=(2,))])
    path.write_bytes(b"\x0f\x00" + path.read_bytes()[2:])
    with pytest.raises(CorpusError, match="damaged"):
        read(path)
    path.with_suffix(".json").unlink()
    with pytest.raises(CorpusError, match="does not describe"):
        read(path)


def test_a_text_that_shares_twenty_tokens_with_a_held_out_one_is_seen() -> None:
    held_out = runs(range(100, 130))
    shares = Text("chat", sampled=False, question=(1, *range(105, 125), 1), answer=())
    differs = Text("chat", sampled=False, question=tuple(range(105, 124)), answer=())
    assert shares_a_run(shares, held_out)
    assert not shares_a_run(differs, held_out)
    assert shares_a_run(replace(differs, answer=tuple(range(100, 130))), held_out)


def test_no_prompt_of_the_benchmark_comes_from_a_template() -> None:
    templates = Templates()
    expressions = templates.expressions()
    draw = random.Random(0)
    for kind in templates.patterns:
        text = templates.fill(kind, draw, ["A passage, with a dot."])
        assert any(each.fullmatch(text) for each in expressions), text
    for name in sets():
        for prompt in bench(name):
            asked = prompt.messages[-1]["content"]
            assert not any(each.fullmatch(asked) for each in expressions), asked


def test_mistakes_are_made_in_some_words_and_are_the_same_again() -> None:
    text = "Several longer words stand here beside one another without mistakes"
    wrong = misspelled(text, random.Random(1))
    assert wrong != text
    assert wrong == misspelled(text, random.Random(1))
    assert len(wrong.split()) == len(text.split())


def test_a_file_that_holds_no_prompts_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"messages": [{"content": "Hello"}]}) + '\n{"text": 1}\n')
    with pytest.raises(CorpusError, match="line 2"):
        prompts([path])
