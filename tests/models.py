"""A tiny random target with a byte-level tokenizer, written as a checkpoint folder by libraries that others wrote."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIALS: Final = ("<pad>", "<s>", "</s>", "<user>", "<assistant>")
END: Final = 2
VOCABULARY: Final = len(SPECIALS) + 256
TEMPLATE: Final = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_byte_llama(folder: Path, *, positions: int = 1024, seed: int = 7) -> Any:  # noqa: ANN401
    """Write the checkpoint; returns the `transformers` model that has the same weights, in float32."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=positions,
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=0,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model


def write_tokenizer(folder: Path, tokenizer: Tokenizer | None = None) -> None:
    """Give a checkpoint folder the byte-level tokenizer, or another."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer or bytes_tokenizer(),
        eos_token="</s>",
        pad_token="<pad>",
        bos_token="<s>",
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)


def write_pruned(source: Path, folder: Path, layers: Sequence[int]) -> Any:  # noqa: ANN401
    """A draft model for a target: a copy of a checkpoint with these of its layers only; returns it in float32."""
    whole = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    config = whole.config
    config.num_hidden_layers = len(layers)
    if kinds := getattr(config, "layer_types", None):
        config.layer_types = [kinds[layer] for layer in layers]
    model = type(whole)(config).eval()
    places = {f".{layer}.": f".{place}." for place, layer in enumerate(layers)}
    kept = {}
    for name, tensor in whole.state_dict().items():
        layer = re.search(r"\.\d+\.", name)
        if layer is None:
            kept[name] = tensor
        elif layer[0] in places:
            kept[name.replace(layer[0], places[layer[0]], 1)] = tensor
    model.load_state_dict(kept)
    model.save_pretrained(folder)
    for path in source.glob("tokenizer*"):
        shutil.copy(path, folder)
    return model


def bytes_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate((*SPECIALS, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer
