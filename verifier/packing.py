"""Windows as arrays, which is how kernels judge them. Pure.

Shapes: R windows, N rows of logits of all of them, V vocabulary, G guesses, K tokens of a law, E rows that are edited,
L tokens of all lists, M masks of W words, B bans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.adjust import Adjustments
from engine.params import depth
from verifier.matcher import Masks
from verifier.step import Work

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Asked:
    """A window with what its request wants of logits."""

    work: Work
    wanted: Adjustments
    bans: bool


def rows(windows: Sequence[Asked]) -> Arrays:
    """How each row is drawn from, and the names of its draws."""
    counts = [each.work.draws for each in windows]
    own = [each.work.sampling for each in windows]
    floor = [depth(each.min_p) for each in own]
    filtered = [
        each.temperature > 0 and (each.top_k > 0 or each.top_p < 1 or each.min_p > 0)
        for each in own
    ]
    made: Arrays = {
        "heat": np.array([each.temperature for each in own], np.float32),
        "top_k": np.array([min(each.top_k, 2**31 - 1) for each in own], np.int32),
        "top_p": np.array([each.top_p for each in own], np.float64),
        "floor": np.array(floor, np.int32),
        "seeds": np.array([each.seed for each in own], np.uint64).view(np.int64),
        "choices": np.array([each.work.choice for each in windows], np.int64),
        "filtered": np.array(filtered, np.bool_),
    }
    made = {name: array.repeat(counts) for name, array in made.items()}
    made["positions"] = np.concatenate(
        [
            np.arange(each.work.position, each.work.position + each.work.draws, dtype=np.int64)
            for each in windows
        ]
    )
    made["filtered"] = np.flatnonzero(made["filtered"]).astype(np.int32)
    return made


def begins(windows: Sequence[Asked]) -> list[int]:
    """The first row of each window."""
    return [0, *accumulate(each.work.draws for each in windows)][: len(windows)]


def places(windows: Sequence[Asked], *, laws: bool, fresh: bool) -> Arrays:
    """The windows, their guesses, and the laws of those; a guess without one is certain."""
    tested = [each.work.tested for each in windows]
    firsts = [0, *accumulate(map(len, tested))][: len(windows)]
    known = [
        law if laws and index < len(each.work.laws) and (law := each.work.laws[index]) else None
        for each in windows
        for index in range(len(each.work.tested))
    ]
    size = max([1, *(len(law.ids) for law in known if law)])
    width = 1 << (size - 1).bit_length()
    tokens = [token for each in tested for token in each]
    id_GK = np.full((max(len(tokens), 1), width), -1, np.int32)
    share_GK = np.zeros((max(len(tokens), 1), width))
    own_G = np.ones(max(len(tokens), 1))
    for index, (token, law) in enumerate(zip(tokens, known, strict=True)):
        if law is None:
            id_GK[index, 0], share_GK[index, 0] = token, 1.0
        else:
            id_GK[index, : len(law.ids)], share_GK[index, : len(law.ids)] = law.ids, law.shares
            own_G[index] = law.shares[int((law.ids == token).argmax())]
    return {
        "window_row": np.array(begins(windows), np.int32),
        "window_draws": np.array([each.work.draws for each in windows], np.int32),
        "window_tested": np.array([len(each) for each in tested], np.int32),
        "window_guess": np.array(firsts, np.int32),
        "window_base": np.array([fresh * each.work.position for each in windows], np.int64),
        "guess_token": np.array(tokens or [0], np.int32),
        "guess_share": own_G,
        "law_id": id_GK,
        "law_share": share_GK,
    }


def edits(windows: Sequence[Asked]) -> Arrays | None:
    """Biases and penalties: for each window the tokens that they concern. None: there are none."""
    lists = [_list(each) for each in windows]
    if not any(len(ids) for ids, *_ in lists):
        return None
    ends = list(accumulate(len(ids) for ids, *_ in lists))
    concerned = [
        (first + place, index, place)
        for index, (each, first) in enumerate(zip(windows, begins(windows), strict=True))
        if len(lists[index][0])
        for place in range(each.work.draws)
    ]
    row_E, window_E, place_E = np.array(concerned, np.int32).T
    return {
        "edit_row": row_E,
        "edit_window": window_E,
        "edit_place": place_E,
        "list_begin": np.array([0, *ends[:-1]], np.int32),
        "list_end": np.array(ends, np.int32),
        "list_id": np.concatenate([ids for ids, *_ in lists]).astype(np.int32),
        "list_count": np.concatenate([counts for _, counts, *_ in lists]).astype(np.int32),
        "list_seen": np.concatenate([seen for *_, seen, _ in lists]).astype(np.int32),
        "list_bias": np.concatenate([bias for *_, bias in lists]).astype(np.float32),
        "repetition": np.array([each.wanted.repetition for each in windows], np.float32),
        "presence": np.array([each.wanted.presence for each in windows], np.float32),
        "frequency": np.array([each.wanted.frequency for each in windows], np.float32),
    }


def _list(each: Asked) -> tuple[Array, Array, Array, Array]:
    """Tokens, how often each was output, whether it was seen at all, and its bias."""
    work, wanted = each.work, each.wanted
    counted = wanted.presence != 0 or wanted.frequency != 0
    repeated = wanted.repetition != 1
    if not (counted or repeated or wanted.bias):
        empty = np.zeros(0, np.int64)
        return empty, empty, empty, empty
    output, counts = np.unique(np.asarray(work.output, np.int64), return_counts=True)
    prompt = np.asarray(work.prompt if repeated else (), np.int64)
    parts = [prompt, output, np.asarray(work.guesses, np.int64), np.array([*wanted.bias], np.int64)]
    ids = np.unique(np.concatenate(parts))
    count = np.zeros(len(ids), np.int64)
    count[np.searchsorted(ids, output)] = counts
    seen = (count > 0) | np.isin(ids, prompt)
    bias = np.zeros(len(ids))
    for token, value in wanted.bias.items():
        bias[np.searchsorted(ids, token)] = value
    return ids, count, seen, bias


def bans(windows: Sequence[Asked], width: int) -> npt.NDArray[np.int64]:
    """Places [B] in the flat logits that nothing may be drawn from."""
    found: list[int] = []
    for each, first in zip(windows, begins(windows), strict=True):
        work = each.work
        for place in range(min(work.banned_draws, work.draws)):
            found += [(first + place) * width + token for token in work.banned]
        if each.wanted.bad_words:
            line = [*work.output, *work.guesses]
            for place in range(work.draws):
                before = line[: len(work.output) + place]
                found += [
                    (first + place) * width + token for token in _bad(each.wanted.bad_words, before)
                ]
    return np.array(found, np.int64)


def _bad(words: Sequence[Sequence[int]], before: Sequence[int]) -> Iterator[int]:
    for word in words:
        *head, last = word
        if len(head) <= len(before) and list(before[len(before) - len(head) :]) == head:
            yield last


def masks(
    windows: Sequence[Asked], known: Sequence[Masks | None], width: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None:
    """Masks [M, W] and which of them each row has, -1 for none. None: there are none."""
    made: list[bytes] = []
    which: list[int] = []
    for each, grammar in zip(windows, known, strict=True):
        allowed = _allowed(each.wanted.allowed, width)
        rows_here = () if grammar is None else grammar.rows[: each.work.draws]
        for place in range(each.work.draws):
            own = rows_here[place] if place < len(rows_here) else None
            if own is None and allowed is None:
                which.append(-1)
                continue
            which.append(len(made))
            made.append(_both(own, allowed, width))
    if not made:
        return None
    return np.frombuffer(b"".join(made), np.int32).reshape(len(made), -1), np.array(which, np.int32)


def _allowed(tokens: Sequence[int], width: int) -> bytes | None:
    if not tokens:
        return None
    bits = np.zeros(width, np.bool_)
    bits[np.asarray(tokens)] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _both(one: bytes | None, other: bytes | None, width: int) -> bytes:
    """What both allow, filled up with zeros to whole words."""
    size = -(-width // 32) * 4
    padded = [each[:size].ljust(size, b"\0") for each in (one, other) if each is not None]
    if len(padded) == 1:
        return padded[0]
    first, second = (np.frombuffer(each, np.uint8) for each in padded)
    return (first & second).tobytes()
