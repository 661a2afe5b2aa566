"""A target that got the pages of another goes on as if it had computed them: same rows, same text."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from engine.config import EngineConfig
from engine.features import Features
from engine.runner import Engine, Row
from kvtransfer.layout import Difference, compatible
from kvtransfer.memory import Pages, pack, unpack
from kvtransfer.plan import piece_bytes, pieces, shared
from tests.models import write_byte_llama
from verifier.handing import layout_of, pages_of

OUTPUT: Final = 12
CHUNK: Final = 40
"""Tokens of prompt in one forward; and a chunk of bytes is small enough to tear layers apart."""
Make = Callable[..., Engine]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("target")
    return folder, write_byte_llama(folder)


@pytest.fixture(scope="module")
def make(checkpoint: tuple[Path, Any]) -> Make:
    def made(page_size: int, dtype: str = "float32", *, states: tuple[int, ...] = (0, 1)) -> Engine:
        config = EngineConfig(
            pages=512 // page_size,
            page_size=page_size,
            max_context=256,
            dtype=dtype,  # type: ignore[arg-type]
        )
        engine = Engine.load(checkpoint[0], config)
        if states:
            engine.capture(Features(states, 64, 512, "float32"))
        return engine

    return made


@pytest.fixture(scope="module")
def said(checkpoint: tuple[Path, Any]) -> Callable[[int], list[int]]:
    """What `transformers` says after the prompt of a length."""

    @cache
    def text(length: int) -> list[int]:
        ids = torch.tensor([prompt(length)])
        with torch.no_grad():
            out = checkpoint[1].generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=OUTPUT, do_sample=False
            )
        found: list[int] = out[0, length:].tolist()
        return found

    return text


def prompt(length: int) -> list[int]:
    return [5 + (7 * index * index + 3 * index) % 250 for index in range(length)]


def prefill(engine: Engine, tokens: list[int], pages: list[int]) -> None:
    for start in range(0, len(tokens), CHUNK):
        engine.forward([Row(tokens[start : start + CHUNK], start, pages, 0)])


def hand_over(
    source: Engine, held: list[int], target: Engine, table: list[int], *, start: int, end: int
) -> None:
    one, other = layout_of(source, "w"), layout_of(target, "w")
    there: Pages = pages_of(source, one)
    here: Pages = pages_of(target, other)
    travelling = shared(one, other)
    for piece in pieces(travelling, start, end, 3000):
        chunk = memoryview(bytearray(piece_bytes(travelling, piece)))
        pack(there, held, travelling, piece, chunk)
        unpack(here, table, travelling, piece, chunk)


def table_of(engine: Engine, length: int, *, shift: int) -> list[int]:
    """Pages in no order."""
    count = -(-(length + OUTPUT) // engine.config.page_size)
    pages = list(range(engine.config.pages))
    return [pages[(7 * index + shift) % len(pages)] for index in range(count)]


@pytest.mark.parametrize("length", [31, 32, 33, 64, 95, 97])
@pytest.mark.parametrize(("theirs", "ours"), [(16, 16), (16, 32), (32, 16)])
@pytest.mark.parametrize("known", [0, 16], ids=["nothing known", "a prefix known"])
def test_the_text_goes_on_as_transformers_says_it(
    make: Make, said: Callable[[int], list[int]], length: int, theirs: int, ours: int, known: int
) -> None:
    source, target = make(theirs), make(ours)
    tokens = prompt(length)
    held, table = table_of(source, length, shift=3), table_of(target, length, shift=1)
    prefill(source, tokens, held)
    if known:
        prefill(target, tokens[:known], table)
    hand_over(source, held, target, table, start=known, end=length - 1)
    line = list(tokens)
    while len(line) < length + OUTPUT:
        logits = target.forward([Row(line[-1:], len(line) - 1, table, 1)]).logits_NV
        line.append(int(logits[-1].argmax()))
    wanted = said(length)
    assert line[length : length + len(wanted)] == wanted


@pytest.mark.parametrize(("theirs", "ours"), [(16, 16), (16, 32), (32, 16)])
def test_rows_that_drafters_read_are_the_same_bits(make: Make, theirs: int, ours: int) -> None:
    source, target, alone = make(theirs), make(ours), make(ours)
    tokens = prompt(97)
    held, table = table_of(source, 97, shift=3), table_of(target, 97, shift=1)
    prefill(source, tokens, held)
    prefill(alone, tokens, table)
    hand_over(source, held, target, table, start=0, end=96)
    assert target.features is not None
    assert alone.features is not None
    span = [(table, 0, 96)]
    rows = target.features.read(span, ours)
    assert rows.abs().sum() > 0
    assert torch.equal(rows, alone.features.read(span, ours))


def test_targets_that_differ_say_in_what(make: Make) -> None:
    own = layout_of(make(16), "w")
    others = {
        "drafter": layout_of(make(16, states=(0, 2)), "w"),
        "model": layout_of(make(16), "v"),
        "dtype of layer 0": layout_of(make(16, "bfloat16"), "w"),
    }
    for what, other in others.items():
        found = compatible(own, other)
        assert isinstance(found, Difference)
        assert found.what == what
    plain = layout_of(make(16, states=()), "w")
    assert not isinstance(compatible(own.only("target"), plain), Difference)
    assert own.slot_bytes == 2 * 2 * 2 * 16 * 4 + 2 * 64 * 4
