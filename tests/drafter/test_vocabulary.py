"""Whether ids mean the same to target and draft model, and what two vocabularies that differ have in common."""

import math
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from drafter.__main__ import build
from drafter.config import DrafterConfig, StandaloneConfig
from drafter.mirror import Mirror
from drafter.proposers import PROPOSERS
from drafter.proposers.standalone import StandaloneProposer, make
from drafter.proposers.wording import SharedWording
from drafter.vocabulary import Intersection, Vocabulary, difference, intersection, spell
from engine.weights import fingerprint
from protocol.fingerprint import tokenizer_fingerprint
from protocol.messages import Sampling
from tests.drafter.stories import commit, guess, mirror_of, opened
from tests.models import SPECIALS, VOCABULARY, bytes_tokenizer

DRAWN = Sampling(temperature=0.9, seed=11)


def byte_level(*words: str, order: int = 1) -> Tokenizer:
    """The byte-level tokenizer, with further words at the end or its letters in another order."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[::order]
    known = [*SPECIALS, *alphabet, *words]
    tokenizer = Tokenizer(models.BPE(vocab={word: n for n, word in enumerate(known)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


def sentencepiece() -> Tokenizer:
    """Words with the sign for a space in front, bytes written out, and other marks, in an order of its own."""
    words = ["\N{LOWER ONE EIGHTH BLOCK}the", "\N{LOWER ONE EIGHTH BLOCK}", "he", "t", "e", "x"]
    known = ["<unk>", "</s>", *words, *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {word: n for n, word in enumerate(known)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\N{LOWER ONE EIGHTH BLOCK}", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def folder(path: Path, tokenizer: Tokenizer, rows: int = 0) -> Path:
    """A draft model with so many rows in its embedding, and its tokenizer."""
    config = transformers.LlamaConfig(
        vocab_size=rows or tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return written(path, tokenizer)


def written(path: Path, tokenizer: Tokenizer) -> Path:
    path.mkdir(exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def proposer(target: Path, draft: Path, *, heterogeneous: bool = False) -> StandaloneProposer:
    return make(
        DrafterConfig(
            method="standalone",
            model=draft,
            target=target,
            dtype="float32",
            kv_bytes=1 << 20,
            standalone=StandaloneConfig(use_heterogeneous_vocab=heterogeneous),
        )
    )


def likeliest(draft: Path, tokens: list[int], allowed: list[int]) -> int:
    model = transformers.AutoModelForCausalLM.from_pretrained(draft).eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1]
    return max(allowed, key=lambda token: float(logits[token]))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return written(tmp_path / "target", bytes_tokenizer())


def test_padding_behind_the_vocabulary_is_fine_and_never_said(target: Path, tmp_path: Path) -> None:
    draft = folder(tmp_path / "draft", bytes_tokenizer(), rows=VOCABULARY + 700)
    made = proposer(target, draft)
    text = [80, 81, 82]
    mirror = opened(made, text)
    said = guess(made, mirror, 20)
    assert max(said) < VOCABULARY
    assert said[0] == likeliest(draft, text, list(range(VOCABULARY)))


def test_words_behind_the_end_of_the_target_s_are_padding(target: Path, tmp_path: Path) -> None:
    more = folder(tmp_path / "more", byte_level("zz", "yy"))
    assert difference(Vocabulary(target), Vocabulary(more)) == ""
    mirror = opened(made := proposer(target, more), [80, 81, 82])
    assert max(guess(made, mirror, 20)) < VOCABULARY


@pytest.mark.parametrize(
    ("tokenizer", "complaint"),
    [
        (byte_level(order=-1), "token 5 is '!' for the target and 'Ń' for the draft model"),
        (sentencepiece(), "token 0 is '<pad>' for the target and '<unk>' for the draft model"),
    ],
)
def test_other_tokenizers_are_refused_with_the_first_difference(
    target: Path, tmp_path: Path, tokenizer: Tokenizer, complaint: str
) -> None:
    draft = folder(tmp_path / "draft", tokenizer)
    with pytest.raises(ValueError, match=f"another vocabulary: {complaint}"):
        proposer(target, draft)


def test_two_swapped_tokens_are_found(target: Path, tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    alphabet[40], alphabet[41] = alphabet[41], alphabet[40]
    swapped = Tokenizer(
        models.BPE({word: n for n, word in enumerate((*SPECIALS, *alphabet))}, merges=[])
    )
    draft = folder(tmp_path / "draft", swapped)
    with pytest.raises(ValueError, match="token 45 is 'I' for the target and 'J' for the draft"):
        proposer(target, draft)


def test_a_draft_model_without_a_tokenizer_cannot_be_compared(target: Path, tmp_path: Path) -> None:
    draft = folder(tmp_path / "draft", bytes_tokenizer())
    (draft / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"draft has no tokenizer\.json"):
        proposer(target, draft)


def test_a_drafter_says_whose_weights_it_has_and_whose_ids_it_speaks(
    target: Path, tmp_path: Path
) -> None:
    draft = folder(tmp_path / "draft", sentencepiece())
    shared = StandaloneConfig(use_heterogeneous_vocab=True)
    config = DrafterConfig(method="standalone", model=draft, target=target, standalone=shared)
    node = build(config.model_copy(update={"kv_bytes": 1 << 20}))
    said = node.endpoint.identity.fingerprint
    node.endpoint.close()
    assert said.weights == fingerprint(draft)
    assert said.tokenizer == tokenizer_fingerprint(target)


# --- vocabularies that overlap ---------------------------------------------------------------------------------------


def words(tokenizer: Tokenizer, *tokens: str) -> list[int]:
    known = tokenizer.get_vocab()
    return [known[token] for token in tokens]


def test_words_are_the_same_by_their_bytes_whatever_writes_them(tmp_path: Path) -> None:
    theirs = sentencepiece()
    own = written(tmp_path / "own", theirs)
    big = written(tmp_path / "big", byte_level("Ġthe", "Ġhe"))
    common = intersection(Vocabulary(big), Vocabulary(own))
    the, he = VOCABULARY, VOCABULARY + 1
    assert common.spelled[the] == tuple(words(theirs, "\N{LOWER ONE EIGHTH BLOCK}the"))
    assert common.spelled[he] == tuple(words(theirs, "\N{LOWER ONE EIGHTH BLOCK}", "he"))
    assert common.said[common.spelled[the][0]] == the
    assert theirs.token_to_id("he") not in common.said
    end = SPECIALS.index("</s>")
    assert common.spelled[end] == (theirs.token_to_id("</s>"),)
    assert common.spelled[SPECIALS.index("<user>")] == ()


def test_a_text_is_spelled_for_the_draft_model_and_its_guesses_are_said_in_the_target_s_words(
    tmp_path: Path,
) -> None:
    theirs = sentencepiece()
    big = written(tmp_path / "big", byte_level("Ġthe", "Ġhe"))
    draft = folder(tmp_path / "draft", theirs)
    made = proposer(big, draft, heterogeneous=True)
    common = intersection(Vocabulary(big), Vocabulary(draft))
    text = [SPECIALS.index("<user>"), VOCABULARY + 1, VOCABULARY, 80]

    def expected(mirror: Mirror) -> int:
        spelled = [
            each for token in (*mirror.prompt, *mirror.line) for each in common.spelled[token]
        ]
        return common.said[likeliest(draft, spelled, list(common.said))]

    for sampling in (Sampling(), DRAWN):
        mirror = mirror_of(text, [], sampling=sampling)
        made.open(mirror)
        for _ in range(6):
            wanted = expected(mirror)
            assert guess(made, mirror, 1) == [wanted]
        commit(made, mirror, [*mirror.line[:2], VOCABULARY + 1, 90])
        wanted = expected(mirror)
        assert guess(made, mirror, 1) == [wanted]
        made.close(mirror)
    made.reset()
    assert made._pool.free == made._pool.pages


def test_the_context_of_the_draft_model_counts_its_own_tokens(tmp_path: Path) -> None:
    """Where the text is longer in its words, drafting ends earlier, for this request only."""
    big = written(tmp_path / "big", byte_level("Ġhe"))
    draft = folder(tmp_path / "draft", sentencepiece())
    made = proposer(big, draft, heterogeneous=True)
    long, short = opened(made, [VOCABULARY] * 32), opened(made, [VOCABULARY] * 31)
    proposals = made.propose([(long, 1), (short, 1)])
    assert proposals[0].tokens == ()
    assert len(proposals[1].tokens) == 1


def test_what_the_target_cannot_say_is_never_the_likeliest() -> None:
    wording = SharedWording(Intersection(spelled={}, said={1: 50, 3: 51, 9: 52}), vocabulary=5)
    logits = wording.sayable(torch.tensor([[9.0, 1.0, 8.0, 2.0, 7.0]]))
    assert logits.tolist() == [[-math.inf, 1.0, -math.inf, 2.0, -math.inf]]


def test_vocabularies_with_nothing_in_common_are_refused(target: Path, tmp_path: Path) -> None:
    alien = Tokenizer(models.BPE({"qq": 0, "qqq": 1}, merges=[]))
    draft = written(tmp_path / "draft", alien)
    with pytest.raises(ValueError, match="no word in common"):
        intersection(Vocabulary(target), Vocabulary(draft))


def test_shared_words_need_the_target_s_tokenizer(tmp_path: Path) -> None:
    draft = folder(tmp_path / "draft", bytes_tokenizer())
    config = DrafterConfig(
        method="standalone", model=draft, standalone=StandaloneConfig(use_heterogeneous_vocab=True)
    )
    with pytest.raises(ValueError, match="needs `target`"):
        PROPOSERS["standalone"](config)


def test_bytes_that_nobody_knows_are_left_out() -> None:
    assert spell(b"abcab?c", {b"ab": 1, b"a": 2, b"abc": 3, b"c": 4}, 3) == (3, 1, 4)
