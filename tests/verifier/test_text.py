"""Detokenisation: text comes out whole, character by character, and special tokens have none."""

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from verifier.text import StreamDetokenizer, TimedDetokenizer, load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One token a byte, and one special token, read back from a checkpoint folder."""
    letters = {letter: index for index, letter in enumerate(sorted(ByteLevel.alphabet()))}
    made = Tokenizer(BPE(letters, []))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevelDecoder()
    made.add_special_tokens([AddedToken("<end>", special=True)])
    folder: Path = tmp_path_factory.mktemp("checkpoint")
    made.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    stream = StreamDetokenizer(tokenizer)
    return [stream.step(token) for token in tokenizer.encode(text).ids]


@pytest.mark.parametrize(
    "text", ["plain words", "  two  spaces ", "naïve café", "日本語", "👩‍👩‍👧 ok"]
)
def test_pieces_join_to_the_text(tokenizer: Tokenizer, text: str) -> None:
    assert "".join(pieces(tokenizer, text)) == text


def test_a_character_comes_with_its_last_byte(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, "é€") == ["", "é", "", "", "€"]


def test_special_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, "a<end>b") == ["a", "", "b"]


def test_two_streams_do_not_share_their_bytes(tokenizer: Tokenizer) -> None:
    first, second = StreamDetokenizer(tokenizer), StreamDetokenizer(tokenizer)
    one, two = tokenizer.encode("é").ids
    assert (first.step(one), second.step(one), first.step(two), second.step(two)) == (
        "",
        "",
        "é",
        "é",
    )


def test_a_stream_that_is_timed_says_the_same_and_when_since_it_was_last_asked(
    tokenizer: Tokenizer,
) -> None:
    times = iter([1.0, 1.5, 2.0, 7.0, 7.25])
    timed = TimedDetokenizer(StreamDetokenizer(tokenizer), lambda: next(times))
    assert timed.spent() is None
    assert [timed.step(token) for token in tokenizer.encode("é").ids] == ["", "é"]
    assert timed.spent() == (1.0, 2.0)
    assert timed.spent() is None
    assert timed.step(tokenizer.encode("a").ids[0]) == "a"
    assert timed.spent() == (7.0, 7.25)
