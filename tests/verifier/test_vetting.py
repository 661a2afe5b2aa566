"""Grammars that kill who compiles them: a child dies of them, and the next question finds another."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages import Grammar
from tests.models import END, bytes_tokenizer
from verifier.vetting import WALL_SECONDS, Vetting, VettingError

FINE = Grammar("json_object")
SLOW = {
    "intersection": Grammar("lark", "start: A\nA: /.*a.{18}/ & /.*b.{17}/ & ~/.*c.{16}/"),
    "multiple": Grammar("json_schema", '{"type": "integer", "multipleOf": 1000003}'),
    "patterns": Grammar(
        "json_schema",
        '{"allOf": ['
        + ",".join(f'{{"type": "string", "pattern": ".*{c}.*"}}' for c in "abcdefghijklmnopqr")
        + "]}",
    ),
}
DEEP = {
    "rules": Grammar(
        "lark", "start: a0\n" + "".join(f"a{n}: a{n + 1}\n" for n in range(1900)) + 'a1900: "x"'
    ),
    "references": Grammar(
        "json_schema",
        '{"$ref": "#/$defs/0", "$defs": {"1000": {}'
        + "".join(f', "{n}": {{"items": {{"$ref": "#/$defs/{n + 1}"}}}}' for n in range(1000))
        + "}}",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    bytes_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def vetting(folder: Path) -> Iterator[Vetting]:
    vetting = Vetting(folder, 300, frozenset({END}))
    yield vetting
    vetting.close()


def children() -> set[int]:
    """Processes whose parent we are."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(entry.name))
    return found


def test_what_is_wrong_is_told_and_the_child_goes_on(vetting: Vetting) -> None:
    assert vetting.check(FINE) == ""
    before = children()
    assert vetting.check(Grammar("regex", "(a")) == "unclosed group"
    assert vetting.check(Grammar("regex", "é\n|\x00")) == ""
    assert vetting.check(FINE) == ""
    assert children() == before


@pytest.mark.parametrize("name", SLOW)
def test_what_takes_for_ever_is_given_up(vetting: Vetting, name: str) -> None:
    assert vetting.check(SLOW[name]) == "the grammar takes more than 0.5 s to compile"
    assert vetting.check(FINE) == ""


@pytest.mark.parametrize("name", DEEP)
def test_what_overflows_the_stack_overflows_it_elsewhere(vetting: Vetting, name: str) -> None:
    assert "nested too deeply" in vetting.check(DEEP[name])
    assert vetting.check(FINE) == ""


def test_a_child_that_was_killed_between_two_questions_is_replaced(folder: Path) -> None:
    vetting = Vetting(folder)
    before = children()
    assert vetting.check(FINE) == ""
    (child,) = children() - before
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert vetting.check(FINE) == ""
    vetting.close()
    assert children() == before


@pytest.mark.parametrize("size", [1, 200_000])
def test_a_child_that_gets_no_turn_says_nothing_of_the_grammar(folder: Path, size: int) -> None:
    """Frozen, it neither reads what does not fit a pipe nor answers."""
    vetting = Vetting(folder)
    before = children()
    assert vetting.check(FINE) == ""
    (child,) = children() - before
    os.kill(child, signal.SIGSTOP)
    vetting.patience = 0.1
    with pytest.raises(VettingError, match=r"within 0\.1 s"):
        vetting.check(Grammar("regex", "a" * size))
    assert children() == before
    vetting.patience = WALL_SECONDS
    assert vetting.check(FINE) == ""
    vetting.close()


def test_a_tokenizer_that_is_none_is_nobodys_grammar(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    vetting = Vetting(tmp_path, 300, frozenset({END}))
    with pytest.raises(VettingError, match="the child ended with"):
        vetting.check(FINE)
    vetting.close()
