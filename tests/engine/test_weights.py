"""Checkpoints that fit, and the names of what does not fit in those that do not."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import EngineError
from engine.weights import Weights, files, fingerprint
from tests.architectures import make
from tests.engine.conftest import Tiny
from tests.engine.test_models import TEXT, Make, begin, close

EXPECTED = {"a": (2, 3), "b": (4,)}


def write(folder: Path, **tensors: torch.Tensor) -> Path:
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_a_tensor_is_read_in_the_dtype_asked_for(tmp_path: Path) -> None:
    folder = write(tmp_path, a=torch.ones(2, 3), b=torch.arange(4.0))
    with Weights(folder, EXPECTED, torch.bfloat16) as weights:
        assert torch.equal(weights.read("b"), torch.arange(4, dtype=torch.bfloat16))


def test_every_misfit_is_named_at_once(tmp_path: Path) -> None:
    folder = write(tmp_path, a=torch.ones(3, 2), c=torch.ones(1))
    with pytest.raises(
        EngineError, match=r"b is missing; c is unexpected; a is \(3, 2\), not \(2, 3\)$"
    ):
        Weights(folder, EXPECTED, torch.float32)


def test_tensors_that_are_derived_or_tied_may_be_there(tmp_path: Path) -> None:
    extra = {"lm_head.weight": torch.ones(9), "model.layers.0.rotary_emb.inv_freq": torch.ones(9)}
    folder = write(tmp_path, a=torch.ones(2, 3), b=torch.ones(4), **extra)
    with Weights(folder, EXPECTED, torch.float32, frozenset({"lm_head.weight"})) as weights:
        assert weights.read("a").shape == (2, 3)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"lacks the weight files model\.safetensors"):
        files(tmp_path)


def test_many_files_are_one_checkpoint(tiny: Make, tmp_path: Path) -> None:
    model = tiny("llama")
    model.reference.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(files(tmp_path)) > 3
    close(begin(type(model)(tmp_path, model.reference)).feed(TEXT), model.logits(TEXT))


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "MixtralForCausalLM"])
def test_many_files_are_one_checkpoint_for_a_hosted_model(tmp_path: Path, name: str) -> None:
    """One of them has its output tied to its embedding, the other has the tensors of experts apart."""
    model = make(name)
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(files(tmp_path)) > 3
    assert model.config.tie_word_embeddings == (name == "GPT2LMHeadModel")
    assert len(fingerprint(tmp_path)) == 64
    hosted = Tiny(tmp_path, model)
    close(begin(hosted).feed(TEXT), hosted.logits(TEXT))


def test_an_index_names_files_of_its_own_folder_only(tmp_path: Path) -> None:
    secret = write(tmp_path, a=torch.ones(2, 3)) / "model.safetensors"
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    index = {"weight_map": {"a": f"../{secret.name}"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(
        EngineError, match=r"names \.\./model\.safetensors, which is no file beside"
    ):
        files(folder)


def test_a_missing_shard_is_named(tiny: Make, tmp_path: Path) -> None:
    tiny("llama").reference.save_pretrained(tmp_path, max_shard_size="20KB")
    lost = files(tmp_path)[1]
    lost.unlink()
    with pytest.raises(EngineError, match=lost.name):
        files(tmp_path)


def test_the_fingerprint_is_of_the_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path, a=torch.zeros(600_000))
    content = (folder / "model.safetensors").read_bytes()
    assert len(content) > 2 << 20
    assert fingerprint(folder) == hashlib.sha256(content).hexdigest()


def test_a_checkpoint_of_another_shape_is_refused(tiny: Make, tmp_path: Path) -> None:
    model = tiny("qwen2")
    model.reference.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.1.self_attn.k_proj.bias"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(EngineError, match=r"model\.layers\.1\.self_attn\.k_proj\.bias is missing"):
        type(model)(tmp_path, model.reference).engine()
