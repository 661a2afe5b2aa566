"""Suffix matching written down as slowly and plainly as possible: what the fast one is compared with."""

from collections import Counter
from collections.abc import Sequence
from math import floor

from drafter.config import SuffixConfig

Text = Sequence[int]
Walk = tuple[
    float, int, list[int], list[float], bool
]  # score, matched, tokens, confidences, doubted

NOTHING: Walk = (0.0, 0, [], [], False)


def common(one: Text, other: Text) -> int:
    """How many tokens at the end are equal."""
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return count


def places(
    texts: Sequence[Text], tail: Text, windows: Sequence[int], most: int
) -> list[tuple[int, int, int]]:
    """(matched, text, position), most recent first."""
    for window in sorted(windows, reverse=True):
        found = [
            (common(text[:position], tail), number, position)
            for number, text in reversed(list(enumerate(texts)))
            for position in range(len(text) - 1, -1, -1)
            if common(text[:position], tail) >= window
        ]
        if found:
            return found[:most]
    return []


def walk(rows: Sequence[Text], matched: int, least: float, *, lowest: bool) -> Walk:
    tokens: list[int] = []
    confidences: list[float] = []
    score, reach = 0.0, 1.0
    while said := [row[len(tokens)] for row in rows if len(row) > len(tokens)]:
        counts = Counter(sorted(said) if lowest else said)
        token, count = counts.most_common(1)[0]
        confidence = count / (len(said) + 2.0 * len(counts) / (matched + len(tokens)))
        if reach * confidence < least:
            return score, matched, tokens, confidences, True
        tokens.append(token)
        confidences.append(confidence)
        reach *= confidence
        score += reach
        rows = [row for row in rows if row[: len(tokens)] == tokens]
    return score, matched, tokens, confidences, False


def best(walks: Sequence[Walk]) -> Walk:
    return max(walks, key=lambda each: each[:2], default=NOTHING)


def counted(
    texts: Sequence[Text], tail: Text, room: int, least: float, config: SuffixConfig
) -> Walk:
    windows = [length for length in (1, 2, 4) if length * config.min_match <= config.max_match]
    found = places(texts, tail, [length * config.min_match for length in windows], 32)
    walks = []
    for length in sorted({matched for matched, _, _ in found}, reverse=True)[:3]:
        budget = min(room, floor(config.factor * length + config.offset))
        rows = [list(texts[n][at : at + budget]) for matched, n, at in found if matched >= length]
        walks.append(walk(rows, length, least, lowest=False))
    return best(walks)


def sorted_corpus(
    texts: Sequence[Text], tail: Text, room: int, least: float, config: SuffixConfig
) -> Walk:
    ends = [(text, position) for text in texts for position in range(len(text) + 1)]
    longest = max((common(text[:position], tail) for text, position in ends), default=0)
    walks = []
    for length in {longest, longest // 2}:
        if length >= config.min_match:
            budget = min(room, floor(config.factor * length + config.offset))
            rows = [
                list(text[at : at + budget])
                for text, at in ends
                if common(text[:at], tail) >= length
            ]
            walks.append(walk(rows, length, least, lowest=True))
    return best(walks)


def propose(
    own: Text,
    outputs: Sequence[Text],
    corpora: Sequence[Sequence[Text]],
    want: int,
    config: SuffixConfig,
) -> tuple[list[int], list[float]]:
    """Guesses after a committed text, and their confidences."""
    tokens: list[int] = []
    confidences: list[float] = []
    survival = 1.0
    for _ in range(4):
        room = want - len(tokens)
        if not room or survival <= config.min_probability:
            break
        tail, least = [*own[-config.max_match :], *tokens], config.min_probability / survival
        found = counted([own], tail, room, least, config)
        if not found[2] or found[1] < len(tail):
            others = [counted(outputs, tail, room, least, config)]
            others += [sorted_corpus(texts, tail, room, least, config) for texts in corpora]
            found = best([found, *others])
        _, _, run, confident, doubted = found
        tokens += run
        confidences += confident
        for confidence in confident:
            survival *= confidence
        if doubted or not run:
            break
    return tokens, confidences
