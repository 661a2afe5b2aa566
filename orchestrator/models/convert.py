"""A child process: reads a GGUF file and writes a folder of bfloat16 safetensors with its tokenizer.

It is a process of its own so that the command line never pays for torch. Progress goes to stdout as `DONE TOTAL`.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

STEPS: Final = 4


def _smollm() -> Any:  # noqa: ANN401  (tokenizers has no types)
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


PRE_TOKENIZERS: Final[Mapping[str, Callable[[], Any]]] = {"smollm": _smollm}
"""transformers reads vocabulary and merges of a GGUF file, but not how text is split before them."""


def convert(gguf: Path, out: Path, pre_tokenizer: str, tensors: int, parameters: int) -> None:
    """Write `out`; a file with another number of tensors or parameters than promised is a ValueError."""
    place = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    _progress(0)
    config = AutoConfig.from_pretrained(**place)
    with torch.device("meta"):  # only the names of its parameters are wanted
        model = AutoModelForCausalLM.from_config(config)
    _progress(1)
    read = load_gguf_checkpoint(
        str(gguf), return_tensors=True, model_to_load=model, torch_dtype=torch.float32
    )
    weights: dict[str, torch.Tensor] = {
        name: tensor.to(torch.bfloat16).contiguous() for name, tensor in read["tensors"].items()
    }
    found = (len(weights), sum(tensor.numel() for tensor in weights.values()))
    if found != (tensors, parameters):
        raise ValueError(
            f"{gguf.name} holds {found} tensors and parameters, not {tensors, parameters}"
        )
    _progress(2)
    tokenizer = AutoTokenizer.from_pretrained(**place)
    tokenizer.backend_tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre_tokenizer]()
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(str(out))
    _progress(3)
    config.architectures = [type(model).__name__]
    config.dtype = torch.bfloat16
    config.save_pretrained(str(out))
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    GenerationConfig(**ends, pad_token_id=tokenizer.pad_token_id).save_pretrained(str(out))
    save_file(weights, str(out / "model.safetensors"), metadata={"format": "pt"})
    _progress(STEPS)


def _progress(done: int) -> None:
    sys.stdout.write(f"{done} {STEPS}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pre-tokenizer", choices=sorted(PRE_TOKENIZERS), required=True)
    parser.add_argument("--tensors", type=int, required=True)
    parser.add_argument("--parameters", type=int, required=True)
    convert(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
