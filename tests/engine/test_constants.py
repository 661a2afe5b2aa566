"""The image of what heads share: other readers of safetensors find in it what is in the checkpoint."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from drafter.checkpoints import Target
from drafter.heads.weights import shared
from engine.constants import IMAGE, SHARED, Constants, target_weights, unpack
from engine.errors import EngineError
from engine.weights import fingerprint
from tests.models import write_byte_llama


def whole(constants: Constants, size: int) -> bytes:
    """Read in pieces of this size."""
    data = b""
    while piece := constants.read(len(data), size):
        assert len(piece) <= size
        data += piece
    return data


@pytest.fixture
def untied(tmp_path: Path) -> Path:
    """A checkpoint with both tensors, one of them in bfloat16, and one that nobody asked for."""
    folder = tmp_path / "untied"
    folder.mkdir()
    generator = torch.Generator().manual_seed(3)
    tensors = {
        SHARED[0]: torch.randn(7, 5, generator=generator),
        SHARED[1]: torch.randn(7, 5, generator=generator).to(torch.bfloat16),
        "model.norm.weight": torch.ones(5),
    }
    save_file(tensors, folder / IMAGE)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize("size", [1, 13, 20, 1 << 20])
def test_pieces_of_any_size_make_the_same_file(untied: Path, tmp_path: Path, size: int) -> None:
    constants = Constants(untied, "abc")
    data = whole(constants, size)
    assert len(data) == constants.length
    (tmp_path / "image").write_bytes(data)
    found, source = load_file(tmp_path / "image"), load_file(untied / IMAGE)
    assert sorted(found) == sorted(SHARED)
    for name, tensor in found.items():
        assert tensor.dtype == source[name].dtype
        assert torch.equal(tensor, source[name])


def test_an_unpacked_image_reads_like_the_checkpoint(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.mkdir()
    folder.mkdir()
    write_byte_llama(source)
    weights = fingerprint(source)
    (folder / IMAGE).write_bytes(whole(Constants(source, weights), 1000))
    unpack(folder, weights)
    assert Target.read(folder) == Target.read(source)
    assert target_weights(folder) == target_weights(source) == weights
    tied = Target.read(source).tied
    for one, other in zip(shared(folder, tied=tied), shared(source, tied=tied), strict=True):
        assert torch.equal(one, other)


def test_an_image_of_other_weights_is_not_taken(untied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / IMAGE).write_bytes(whole(Constants(untied, "abc"), 1000))
    with pytest.raises(EngineError, match="is of weights abc, not abd"):
        unpack(folder, "abd")
    (folder / IMAGE).write_bytes(b"no image at all")
    with pytest.raises(EngineError, match="cannot be read"):
        unpack(folder, "abc")
    assert not (folder / "config.json").exists()


def test_a_checkpoint_without_an_output_matrix_has_none(tmp_path: Path) -> None:
    write_byte_llama(tmp_path)
    (tmp_path / "image").write_bytes(whole(Constants(tmp_path, "abc"), 1 << 20))
    with safe_open(tmp_path / "image", framework="pt") as image:
        assert set(image.keys()) <= set(SHARED)
