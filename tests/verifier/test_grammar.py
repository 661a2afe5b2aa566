"""Grammars by themselves: what is allowed where, how texts end, what is refused, and what a matcher remembers."""

import json
from pathlib import Path
from typing import Final

import pytest
from llguidance import LLParserLimits, LLTokenizer

from protocol.messages import Grammar
from tests.models import END, bytes_tokenizer
from verifier.grammar import KINDS, Grammars, bridge, check
from verifier.matcher import Masks, Matcher

WIDTH: Final = 300
"""Logits have more columns than the tokenizer has tokens."""
PAIR: Final = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    bytes_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> LLTokenizer:
    return bridge(folder, WIDTH, [END])


def ids(text: str) -> list[int]:
    return bytes_tokenizer().encode(text).ids


def begin(tokenizer: LLTokenizer, kind: str, text: str = "") -> Matcher:
    compiled = Grammars(tokenizer, lambda _grammar: "").compile(Grammar(kind, text))
    assert not isinstance(compiled, str), compiled
    return compiled()


def follow(matcher: Matcher, text: str) -> None:
    for token in ids(text):
        assert matcher.accept(token) == ""


def allowed(row: bytes) -> set[int]:
    return {bit for bit in range(8 * len(row)) if row[bit // 8] >> bit % 8 & 1}


def letters(text: str) -> set[int]:
    return set(ids(text))


# --- what may stand where ------------------------------------------------------------------------------------------


def test_each_row_says_what_may_follow_the_drafts_before_it(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "ab(c|de)f")
    masks = matcher.masks(ids("abd"))
    assert [allowed(row) for row in masks.rows] == [
        letters("a"),
        letters("b"),
        letters("cd"),
        letters("e"),
    ]


def test_rows_end_behind_a_draft_that_may_not_stand_there(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "abcd")
    masks = matcher.masks(ids("abxd"))
    assert [allowed(row) for row in masks.rows] == [letters("a"), letters("b"), letters("c")]


def test_rows_end_with_the_text(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "ab")
    masks = matcher.masks([*ids("ab"), END, *ids("ab")])
    assert [allowed(row) for row in masks.rows] == [letters("a"), letters("b")]


def test_looking_ahead_moves_nothing(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "json_object")
    before = matcher.masks([])
    for drafts in ("```json", '{"a": "x\ny"}', '{"a": 1}', '{"'):
        matcher.masks(ids(drafts))
    assert matcher.masks([]) == before
    follow(matcher, '{"a": "')
    assert not letters("\n") & allowed(matcher.masks([]).rows[0])


def test_where_a_text_may_end_or_go_on_the_end_token_is_among_the_allowed(
    tokenizer: LLTokenizer,
) -> None:
    matcher = begin(tokenizer, "regex", "ab?")
    follow(matcher, "a")
    assert (matcher.complete, matcher.finished) == (True, False)
    assert allowed(matcher.masks([]).rows[0]) == {END} | letters("b")
    assert matcher.accept(END) == ""
    assert matcher.finished


def test_where_nothing_may_follow_the_text_is_finished_at_once(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "json_schema", PAIR)
    follow(matcher, '{"a": 12')
    assert (matcher.complete, matcher.finished) == (False, False)
    follow(matcher, "}")
    assert (matcher.complete, matcher.finished) == (True, True)


def test_what_has_no_token_is_never_allowed(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "(.|\n)*")
    last = bytes_tokenizer().get_vocab_size()
    assert max(allowed(matcher.masks([]).rows[0])) < last
    assert 8 * len(matcher.masks([]).rows[0]) >= WIDTH


def test_characters_of_many_bytes_are_followed_byte_by_byte(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "(é|😀)!")
    follow(matcher, "😀!")
    assert matcher.finished


def test_white_space_in_json_is_bounded(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "json_object")
    follow(matcher, "{" + 64 * "\n")
    assert not letters(" \n\t") & allowed(matcher.masks([]).rows[0])
    follow(matcher, '"a":1}')
    assert matcher.finished


def test_a_matcher_refuses_what_the_grammar_does(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "abc")
    follow(matcher, "a")
    assert "does not allow" in matcher.accept(ids("x")[0])
    follow(matcher, "bc")
    assert matcher.finished


def test_matchers_of_one_grammar_do_not_move_each_other(tokenizer: LLTokenizer) -> None:
    compiled = Grammars(tokenizer, lambda _grammar: "").compile(Grammar("regex", "abc"))
    assert not isinstance(compiled, str)
    one, other = compiled(), compiled()
    follow(one, "ab")
    assert allowed(other.masks([]).rows[0]) == letters("a")
    assert allowed(one.masks([]).rows[0]) == letters("c")


# --- limits ----------------------------------------------------------------------------------------------------------


EXPLODES: Final = "(.*a.{200}|.*b.{190})*"
"""Every text that is looked at makes new states of the automaton."""


def test_what_others_looked_at_does_not_count_against_a_text(tokenizer: LLTokenizer) -> None:
    """Without a fresh start, all but the first of these matchers would meet the limit of states at once."""
    limits = LLParserLimits(max_lexer_states=400, verbose_errors=False)
    grammars = Grammars(tokenizer, lambda _grammar: "", limits)
    compiled = grammars.compile(Grammar("regex", EXPLODES))
    assert not isinstance(compiled, str)
    for seed in range(8):
        matcher = compiled()
        text = "".join("ab"[seed >> place % 6 & 1] for place in range(60))
        follow(matcher, text[:30])
        masks = matcher.masks(ids(text[30:]))
        assert masks.fault == ""
        assert len(masks.rows) == 31


def test_a_limit_that_one_text_meets_is_a_fault_of_that_place(tokenizer: LLTokenizer) -> None:
    matcher = begin(tokenizer, "regex", "(.{1,1000}){1,1000}")
    masks = Masks((), "")
    for _ in range(100):
        masks = matcher.masks([])
        if masks.fault:
            break
        follow(matcher, "a")
    assert masks.rows == ()
    assert "lexer error" in masks.fault
    assert "\n" not in masks.fault
    assert not matcher.complete or not matcher.finished


# --- what is refused --------------------------------------------------------------------------------------------------


WRONG: Final = {
    "kind": (Grammar("xml", "<a/>"), "no grammar 'xml', only json_object, json_schema"),
    "object with text": (Grammar("json_object", "{}"), "has no text"),
    "schema that is no json": (Grammar("json_schema", '{"type":'), "not JSON: Expecting value"),
    "schema too deep": (Grammar("json_schema", '{"items":' * 5000), "not JSON: "),
    "schema that is no object": (Grammar("json_schema", "[1]"), "not a JSON object"),
    "type": (Grammar("json_schema", '{"type": "strange"}'), "Invalid type: strange"),
    "keyword": (Grammar("json_schema", '{"not": {}}'), 'Unimplemented keys: ["not"]'),
    "reference": (Grammar("json_schema", '{"$ref": "http://x/y"}'), "does not fetch resources"),
    "contradiction": (
        Grammar("json_schema", '{"type": "string", "minLength": 5, "maxLength": 3}'),
        "Unsatisfiable schema",
    ),
    "nothing allowed": (Grammar("json_schema", '{"$ref": "#"}'), "no text at all"),
    "group": (Grammar("regex", "(a"), "unclosed group"),
    "look-around": (Grammar("regex", "a(?=b)"), "look-around"),
    "back-reference": (Grammar("regex", r"(a)\1"), "backreferences are not supported"),
    "repeat": (Grammar("regex", "foo**"), "multiple repeat"),
    "counted repeat": (Grammar("regex", "a{2,3}*"), "multiple repeat"),
    "empty set": (Grammar("regex", r"[^\s\S]"), "no text at all"),
    "fuel": (
        Grammar(
            "lark",
            "start: A0\n" + "".join(f"A{n}: A{n + 1} A{n + 1}\n" for n in range(30)) + 'A30: "y"',
        ),
        "too big",
    ),
    "lark": (Grammar("lark", "start: nowhere"), 'unknown name: "nowhere"'),
    "no start": (Grammar("lark", 'other: "a"'), "no start rule"),
    "recursion": (Grammar("lark", 'start: A\nA: "a" A'), "circular reference"),
    **{
        f"long {kind}": (Grammar(kind, "é" * (each.most // 2 + 1)), f"{each.most} are served")
        for kind, each in KINDS.items()
        if each.most
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_short_line(tokenizer: LLTokenizer, name: str) -> None:
    grammar, words = WRONG[name]
    found = check(grammar, tokenizer)
    assert words in found
    assert len(found) <= 300
    assert "\n" not in found
    assert Grammars(tokenizer, lambda _grammar: "").compile(grammar) == found


RIGHT: Final = {
    "object": Grammar("json_object"),
    "any": Grammar("json_schema", "{}"),
    "schema": Grammar("json_schema", PAIR),
    "stars that are letters": Grammar("regex", r"\**[+*]*\{2\}*"),
    "unicode": Grammar("regex", r"\p{L}{1,50}@[^*]*"),
    "empty": Grammar("regex", ""),
    "many": Grammar("json_schema", json.dumps({"enum": [f"value {n}" for n in range(3000)]})),
    "left recursion": Grammar("lark", 'start: start "a" | "b"'),
    "tree": Grammar(
        "json_schema",
        '{"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}',
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_taken(tokenizer: LLTokenizer, name: str) -> None:
    assert check(RIGHT[name], tokenizer) == ""


def test_what_was_found_wrong_elsewhere_is_not_tried_here(tokenizer: LLTokenizer) -> None:
    """And nobody is asked twice about the same grammar."""
    asked: list[Grammar] = []

    def vet(grammar: Grammar) -> str:
        asked.append(grammar)
        return "too slow" if grammar.text == "a" else ""

    grammars = Grammars(tokenizer, vet)
    for _ in range(3):
        assert grammars.compile(Grammar("regex", "a")) == "too slow"
        assert not isinstance(grammars.compile(Grammar("regex", "b")), str)
    assert [grammar.text for grammar in asked] == ["a", "b"]


def test_a_tokenizer_that_the_library_does_not_know_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer"):
        bridge(tmp_path, WIDTH, [END])


def test_a_tokenizer_with_more_tokens_than_logits_is_taken_as_it_is(folder: Path) -> None:
    narrow = bridge(folder, 100, [END])
    assert narrow.vocab_size == bytes_tokenizer().get_vocab_size()
