"""Grammars with `llguidance`: compiled once, then followed token by token.

Nothing here needs torch, so that a front door can check a grammar too. A library that builds automata from texts of
strangers can take for ever, or more stack than there is; `verifier/vetting.py` finds that out at a safe place first.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from protocol.messages import Grammar
from verifier.matcher import Compiled, Masks, Matcher

LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=50_000,
    step_max_items=10_000,
    max_lexer_states=50_000,
    max_grammar_size=50_000,
    verbose_errors=False,
)
"""A quarter to a tenth of the library's own, so that no mask takes longer than some tens of milliseconds."""
REMEMBERED: Final = 32
"""Compiled grammars that are kept for the next request with the same."""
LONGEST_TEXT: Final = 300
"""Characters of an error: the library likes to quote the whole grammar."""
SPACE: Final = r"[ \n\t\r]{1,64}"
"""White space between the parts of a JSON text. Bounded, or a model that likes it never comes to an end."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How texts of a kind become grammars of the library; `most` is their longest in UTF-8."""

    most: int
    translate: Callable[[str], str]


class GrammarError(ValueError):
    """The grammar is wrong, or more than is served."""


def _object(text: str) -> str:
    if text:
        raise GrammarError("json_object has no text of its own")
    return _schema('{"type": "object"}')


def _schema(text: str) -> str:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise GrammarError("the schema is not a JSON object")
    return LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_pattern": SPACE})


_ESCAPE_OR_CLASS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEATED_TWICE: Final = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})\*")


def _regex(text: str) -> str:
    if _REPEATED_TWICE.search(_ESCAPE_OR_CLASS.sub("x", text)):
        raise GrammarError("multiple repeat: two quantifiers follow each other")
    return LLMatcher.grammar_from_regex(text)


KINDS: Final[Mapping[str, _Kind]] = {
    "json_object": _Kind(0, _object),
    "json_schema": _Kind(2**16, _schema),
    "regex": _Kind(2**13, _regex),
    "lark": _Kind(2**15, LLMatcher.grammar_from_lark),
}


def bridge(folder: Path, width: int, end_tokens: Iterable[int]) -> LLTokenizer:
    """The tokenizer of a checkpoint as the library sees it; `width` is how many logits a row has.

    Takes some tenths of a second and tens of megabytes. A ValueError says why it cannot be done.
    """
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    ends = sorted(end_tokens) or None
    own = LLTokenizer(text, eos_token=ends)
    return own if own.vocab_size >= width else LLTokenizer(text, n_vocab=width, eos_token=ends)


def check(grammar: Grammar, tokenizer: LLTokenizer) -> str:
    """What is wrong with a grammar, or nothing."""
    try:
        _build(grammar, tokenizer)
    except GrammarError as error:
        return str(error)
    return ""


def _build(grammar: Grammar, tokenizer: LLTokenizer, limits: LLParserLimits = LIMITS) -> LLMatcher:
    """A matcher whose first mask is known to come."""
    kind = KINDS.get(grammar.kind)
    if kind is None:
        raise GrammarError(f"no grammar {grammar.kind[:40]!r}, only {', '.join(KINDS)}")
    if kind.most and (size := len(grammar.text.encode(errors="replace"))) > kind.most:
        raise GrammarError(f"{grammar.kind} of {size} bytes, {kind.most} are served")
    try:
        matcher = LLMatcher(tokenizer, kind.translate(grammar.text), log_level=0, limits=limits)
    except GrammarError:
        raise
    except ValueError as error:
        raise GrammarError(_short(str(error))) from error
    if not matcher.is_error():
        matcher.compute_bitmask()
    if matcher.is_error():
        raise GrammarError(_short(matcher.get_error()))
    return matcher


def _short(text: str) -> str:
    """The line that says it: errors come with a picture of the place, or of the whole parser."""
    lines = text.splitlines() or ["the grammar cannot be compiled"]
    named = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if lines[0] == "NoExtensionBias":
        return "no text at all is allowed by this grammar"
    return (named or lines)[0][:LONGEST_TEXT]


class Grammars:
    """Compiles grammars for one tokenizer. `vet` says what is wrong with one before it is tried here."""

    def __init__(
        self,
        tokenizer: LLTokenizer,
        vet: Callable[[Grammar], str],
        limits: LLParserLimits = LIMITS,
    ) -> None:
        self._build = partial(_build, tokenizer=tokenizer, limits=limits)
        self._vet = vet
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._compile)

    def compile(self, grammar: Grammar) -> Compiled | str:
        """Matchers for this grammar, or what is wrong with it."""
        return self._remembered(grammar)

    def _compile(self, grammar: Grammar) -> Compiled | str:
        if fault := self._vet(grammar):
            return fault
        try:
            source = _Source(lambda: self._build(grammar))
        except GrammarError as error:
            return str(error)
        return lambda: GrammarMatcher(source)


class _Source:
    """One compiled grammar. Matchers that come of it share what was found out about it, and its limits too."""

    def __init__(self, build: Callable[[], LLMatcher]) -> None:
        self._build = build
        self._first = build()

    def new(self) -> LLMatcher:
        return self._first.deep_copy()

    def renew(self) -> LLMatcher:
        """What was found out is forgotten: a limit that is met after this belongs to one text alone."""
        self._first = self._build()
        return self.new()


class GrammarMatcher(Matcher):
    """Follows one choice. Windows are walked on a copy, so that drafts leave no trace here."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._matcher = source.new()
        self._tokens: list[int] = []

    def masks(self, drafts: Sequence[int]) -> Masks:
        found = _walk(self._matcher.deep_copy(), drafts)
        if found.fault and self._renew():
            found = _walk(self._matcher.deep_copy(), drafts)
        return found

    def accept(self, token: int) -> str:
        taken = self._matcher.try_consume_tokens([token])
        if not taken and self._renew():
            taken = self._matcher.try_consume_tokens([token])
        if not taken:
            return _short(self._matcher.get_error() or f"the grammar does not allow token {token}")
        self._tokens.append(token)
        return ""

    @property
    def complete(self) -> bool:
        return bool(self._matcher.is_accepting())

    @property
    def finished(self) -> bool:
        return bool(self._matcher.is_stopped() and not self._matcher.is_error())

    def _renew(self) -> bool:
        """The same place in a fresh matcher: limits are on all that was ever looked at, here and by others."""
        fresh = self._source.renew()
        if fresh.try_consume_tokens(self._tokens) < len(self._tokens):
            return False
        self._matcher = fresh
        return True


def _walk(matcher: LLMatcher, drafts: Sequence[int]) -> Masks:
    rows: list[bytes] = []
    for draft in (*drafts, None):
        row = matcher.compute_bitmask()
        if matcher.is_error():
            return Masks(tuple(rows), _short(matcher.get_error()))
        rows.append(row)
        if draft is None or not matcher.try_consume_tokens([draft]):
            break
        if matcher.is_error():
            return Masks(tuple(rows), _short(matcher.get_error()))
        if matcher.is_stopped():
            break
    return Masks(tuple(rows))
