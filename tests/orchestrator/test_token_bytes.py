"""What tokens mean in bytes, for both families of tokenizers; the right text is what the library itself decodes."""

import random
from collections.abc import Callable, Sequence

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from orchestrator.front.token_bytes import Offsets
from protocol.token_bytes import TokenBytes

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.add_tokens([AddedToken("<tööl>", special=False)])
    return tokenizer


def sentence_piece() -> Tokenizer:
    words = ["<unk>", *BYTES, "▁the", "▁", "cat", "s", "▁é", "€"]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer


def ids(tokenizer: Tokenizer, *words: str) -> list[int]:
    found = [tokenizer.token_to_id(word) for word in words]
    assert all(isinstance(each, int) for each in found)
    return [each for each in found if each is not None]


def offsets(known: TokenBytes, tokens: Sequence[int]) -> list[int]:
    steps = Offsets(known, 10)
    return [steps.step(token, shown=not known.special(token)) for token in tokens] + [steps.at]


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_the_bytes_of_any_tokens_join_to_their_text(make: Callable[[], Tokenizer]) -> None:
    tokenizer = make()
    known = TokenBytes(tokenizer)
    rng = random.Random(4)
    for _ in range(300):
        tokens = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(6)]
        text = b"".join(known[token] for token in tokens).decode(errors="replace")
        right = tokenizer.decode(tokens, skip_special_tokens=False)
        if "\ufffd" not in text:  # how broken text is mended is another matter
            assert (text.removeprefix(" ") if known.strips else text) == right


def test_parts_of_characters_are_named_by_their_bytes() -> None:
    known = TokenBytes(sentence_piece())
    first, end, word, space = ids(sentence_piece(), "<0xE2>", "<end>", "▁the", "▁é")
    assert known.shown(first) == "bytes:\\xe2"
    assert (known.shown(end), known.special(end)) == ("<end>", True)
    assert (known.shown(word), known[word]) == (" the", b" the")
    assert (known.shown(space), known.special(space)) == (" é", False)


def test_a_number_that_is_no_token_has_no_bytes_but_a_name() -> None:
    known = TokenBytes(byte_level())
    assert (known[9999], known.shown(9999), known.special(9999)) == (b"", "token_id:9999", False)


def test_an_added_word_is_a_word_of_the_text() -> None:
    tokenizer = byte_level()
    known = TokenBytes(tokenizer)
    (word,) = ids(tokenizer, "<tööl>")
    assert (known.special(word), known[word].decode()) == (False, "<tööl>")


def test_offsets_are_those_of_the_text() -> None:
    tokenizer = sentence_piece()
    tokens = ids(tokenizer, "▁the", "<end>", "▁", "cat", "<0xE2>", "<0x82>", "<0xAC>", "s")
    assert tokenizer.decode(tokens) == "the cat€s"
    assert offsets(TokenBytes(tokenizer), tokens) == [10, 13, 13, 14, 17, 17, 17, 18, 19]
