"""The sets that ship are what their README says; a user's file is checked before anything is started."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from orchestrator.bench.prompts import WARM_UP, Prompt, parse, read, sets
from orchestrator.settings import ConfigError

RUN = 20
"""Words and signs in a row that no two prompts of a set have in common."""


def words(prompt: Prompt) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", " ".join(one["content"] for one in prompt.messages))


def runs(prompt: Prompt) -> Iterator[tuple[str, ...]]:
    said = words(prompt)
    yield from (tuple(said[start : start + RUN]) for start in range(len(said) - RUN + 1))


def test_there_are_four_sets() -> None:
    assert sets() == ["chat", "code", "edit", "math"]


@pytest.mark.parametrize("name", sets())
def test_a_set_holds_enough_prompts_and_each_once(name: str) -> None:
    prompts = read(name)
    assert len(prompts) >= 128
    assert len({prompt.id for prompt in prompts}) == len(prompts)
    assert len({tuple(words(prompt)) for prompt in prompts}) == len(prompts)


@pytest.mark.parametrize("name", sets())
def test_no_two_prompts_share_a_passage(name: str) -> None:
    owners: dict[tuple[str, ...], str] = {}
    for prompt in read(name):
        for run in set(runs(prompt)):
            assert owners.setdefault(run, prompt.id) == prompt.id, " ".join(run)


@pytest.mark.parametrize("name", ["chat", "code", "math"])
def test_prompts_are_no_template(name: str) -> None:
    """Whoever replaces the numbers and takes the first five words still finds them different."""
    begins = [re.sub(r"\d+", "#", " ".join(words(prompt)[:5])).lower() for prompt in read(name)]
    assert max(begins.count(begin) for begin in begins) <= 4


def test_no_set_holds_what_systems_are_warmed_up_with() -> None:
    warm = {run for prompt in WARM_UP for run in runs(prompt)}
    for name in sets():
        assert not any(run in warm for prompt in read(name) for run in runs(prompt))


def test_the_licence_is_told_and_every_set_described() -> None:
    text = files("orchestrator").joinpath("bench/prompts/README.md").read_text("utf-8")
    assert "Apache-2.0" in text
    assert "written for this project" in text
    assert all(f"`{name}.jsonl`" in text for name in sets())


def test_the_first_prompts_of_a_set_are_its_first_lines() -> None:
    assert read("edit", 3) == read("edit")[:3]
    with pytest.raises(ConfigError, match="chat has 130 prompts, not 1000"):
        read("chat", 1000)


def line(text: str, **more: object) -> str:
    return json.dumps({"id": text, "messages": [{"role": "user", "content": text}], **more})


def test_a_file_of_the_users(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(line("Why?") + "\n" + line("How?", max_tokens=7) + "\n")
    assert [(one.id, one.max_tokens) for one in read(str(file))] == [("Why?", None), ("How?", 7)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "mine holds no prompts"),
        ("no json", "mine, line 1"),
        (line("Why?") + '\n{"id": "x"}', "mine, line 2: messages"),
        (line("Why?", max_tokens=0), "line 1: max_tokens"),
        (line("Why?", tokens=1), "line 1: tokens"),
        (line("Why?") + "\n" + line("How?") + "\n" + line("Why?"), "lines 1 and 3 ask the same"),
    ],
)
def test_a_file_with_a_fault_is_refused_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse(text, "mine")


def test_a_set_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no set or file 'chatt'; did you mean 'chat'"):
        read("chatt")
