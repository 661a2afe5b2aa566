"""Draft heads as they are published: what each dialect means, and what is refused with both values."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors.torch import load_file, save_file

from drafter.checkpoints import CheckpointError, Target, read
from drafter.checkpoints.blocks import default_ids
from drafter.checkpoints.layers import eagle3_default
from drafter.heads.weights import HeadWeights
from tests import heads

TARGET: Final = Target(layers=2, hidden=heads.HIDDEN, vocab=heads.VOCAB, positions=1024)
SMOL: Final = Target(layers=30, hidden=576, vocab=49152)

Write = Callable[[Path], Path]
MEANT: Final[dict[str, tuple[Write, str, str, tuple[int, ...], int]]] = {
    "EAGLE-1: the last state after its norm": (heads.eagle_1, "eagle", "eagle", (3,), heads.VOCAB),
    "EAGLE-3: ids are inputs": (heads.eagle_3, "eagle3", "eagle3", (0, 1, 2), 120),
    "SpecForge: nested ids are outputs": (heads.specforge_eagle_3, "eagle3", "specforge", (0, 1, 2), 120),
    "DeepSpec: ids are outputs": (heads.deepspec_eagle_3, "eagle3", "deepspec", (1, 2), heads.VOCAB),
    "speculators EAGLE-3: ids are inputs": (heads.speculators_eagle_3, "eagle3", "speculators", (0, 1, 2), 120),
    "z-lab: ids are outputs": (heads.zlab_dflash, "dflash", "z-lab", (1, 2), heads.VOCAB),
    "SpecForge DSpark: ids are outputs": (heads.specforge_dspark, "dspark", "specforge", (1, 2), heads.VOCAB),
    "DeepSpec DSpark: ids are outputs": (heads.deepspec_dspark, "dspark", "deepspec", (1, 2), heads.VOCAB),
    "speculators DFlash: ids are inputs": (heads.speculators_dflash, "dflash", "speculators", (1, 2), 120),
    "speculators DSpark: ids are inputs": (heads.speculators_dspark, "dspark", "speculators", (1, 2), heads.VOCAB),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT)
def test_a_dialect_is_recognised_and_its_layer_ids_are_read_as_it_means_them(
    tmp_path: Path, name: str
) -> None:
    write, kind, dialect, states, vocab = MEANT[name]
    head = read(write(tmp_path), TARGET)
    assert (head.kind, head.dialect, head.states, head.vocab) == (kind, dialect, states, vocab)


@pytest.mark.parametrize(("write", "block", "guesses"), [
    (heads.zlab_dflash, 8, 7), (heads.speculators_dflash, 8, 7), (heads.specforge_dspark, 7, 7),
    (heads.deepspec_dspark, 7, 7), (heads.speculators_dspark, 7, 7),
    (lambda f: heads.speculators_dspark(f, sample_from_anchor=False), 7, 6),
])  # fmt: skip
def test_how_many_guesses_a_block_holds(
    tmp_path: Path, write: Write, block: int, guesses: int
) -> None:
    """Where the anchor's slot is a guess, there is one more."""
    head = read(write(tmp_path), TARGET)
    assert (head.block, head.longest) == (block, guesses)


def test_the_convention_and_the_states_can_be_said(tmp_path: Path) -> None:
    folder = heads.zlab_dflash(tmp_path)
    assert read(folder, TARGET, "in").states == (0, 1)
    assert read(folder, TARGET, "", (0, 2)).states == (0, 2)
    with pytest.raises(CheckpointError, match="'on' is neither 'in' nor 'out'"):
        read(folder, TARGET, "on")


def test_ids_that_were_probably_meant_otherwise_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For four layers, [2, 2, 1] is no default; the list [1, 1, 0] of outputs is. A real one is needed: six layers."""
    six = Target(layers=8, hidden=heads.HIDDEN, vocab=heads.VOCAB)
    folder = heads.eagle_3(tmp_path)
    edit(folder, eagle_aux_hidden_state_layer_ids=[1, 3, 4])
    with caplog.at_level(logging.WARNING):
        assert read(folder, six).states == (1, 3, 4)
    assert "layer ids [1, 3, 4] are read as 'in'" in caplog.text


def test_default_layers_are_those_that_heads_are_trained_on() -> None:
    assert eagle3_default(SMOL) == (2, 15, 27)
    assert [default_ids(30, count) for count in (1, 2, 3, 5)] == [
        [15], [1, 27], [1, 14, 27], [1, 8, 14, 20, 27],
    ]  # fmt: skip
    assert default_ids(36, 5) == [1, 9, 17, 25, 33]


def test_a_small_vocabulary_is_a_map_of_offsets(tmp_path: Path) -> None:
    folder = heads.eagle_3(tmp_path)
    stored = load_file(folder / "model.safetensors")
    with HeadWeights(read(folder, TARGET), torch.float32) as weights:
        ids = weights.ids()
    assert ids is not None
    assert ids.tolist() == stored["t2d"].nonzero()[:, 0].tolist()


def edit(folder: Path, **said: Any) -> None:
    """Change fields of the configuration; None takes one away."""
    config = json.loads((folder / "config.json").read_text()) | said
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))


def without(folder: Path, name: str, instead: torch.Tensor | None = None) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    if instead is not None:
        tensors[name] = instead
    save_file(tensors, folder / "model.safetensors")


REFUSED: Final[dict[str, tuple[Write, dict[str, Any], str]]] = {
    "DFlash2": (heads.zlab_dflash, {"architectures": ["DFlash2DraftModel"]},
        "architecture 'DFlash2DraftModel' is no draft head that is known"),
    "domino": (heads.zlab_dflash, {"dflash_config": {**heads.CAPTURED, "projector_type": "domino"}},
        "projector_type is 'domino', only 'dflash' and 'dspark' are known"),
    "another kind of speculators": (heads.speculators_dflash, {"speculators_model_type": "dflash2"},
        "speculators_model_type is 'dflash2', only eagle3, dflash, dspark are known"),
    "an ordinary model": (heads.eagle_1, {"architectures": ["GptOssForCausalLM"]},
        "architecture 'GptOssForCausalLM' is no draft head"),
    "more layers than fc takes": (heads.deepspec_eagle_3, {"target_layer_ids": [0, 1, -1]},
        r"fc.weight is \(64, 128\), not \(64, 192\)"),
    "a layer that the target has not": (heads.zlab_dflash,
        {"dflash_config": {"mask_token_id": 4, "target_layer_ids": [1, 7]}},
        r"are states \[2, 8\], the target has 0 to 3"),
    "another vocabulary": (heads.eagle_3, {"draft_vocab_size": 121},
        r"d2t is \(120,\), not \(121,\)"),
    "another rank": (heads.deepspec_dspark, {"markov_rank": 9},
        r"markov_w2.weight is \(261, 8\), not \(261, 9\)"),
    "an unknown bias": (heads.deepspec_dspark, {"markov_head_type": "lstm"},
        "markov_head_type 'lstm' is not known, only vanilla, gated, rnn"),
    "a confidence without what it reads": (heads.speculators_dspark, {"markov_rank": 0},
        "confidence_head_with_markov is true, markov_rank is 0"),
    "no mask token": (heads.zlab_dflash, {"dflash_config": {"target_layer_ids": [0, 1]}},
        "config.json has no dflash_config.mask_token_id or mask_token_id"),
    "a mask token that is none": (heads.speculators_dflash, {"mask_token_id": 261},
        "mask_token_id is 261, the target has 261 tokens"),
    "two norms at once": (heads.speculators_eagle_3, {"fc_norm": True, "norm_before_fc": True},
        "fc_norm and norm_before_fc are both true"),
    "a norm that is not there": (heads.speculators_eagle_3, {"fc_norm": True},
        "fc_norm.0.weight is missing"),
    "an activation that is not served": (heads.zlab_dflash, {"hidden_act": "gelu"}, "gelu"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_both_values(tmp_path: Path, name: str) -> None:
    write, said, words = REFUSED[name]
    folder = write(tmp_path)
    edit(folder, **said)
    with pytest.raises(CheckpointError, match=words):
        read(folder, TARGET)


def test_a_map_is_needed_and_must_lead_into_the_vocabulary(tmp_path: Path) -> None:
    folder = heads.eagle_3(tmp_path)
    beyond = torch.full((120,), heads.VOCAB - 119)
    without(folder, "d2t", beyond)
    with (
        HeadWeights(read(folder, TARGET), torch.float32) as weights,
        pytest.raises(CheckpointError, match="d2t leads to token 261, the target has 261"),
    ):
        weights.ids()
    without(folder, "d2t")
    with pytest.raises(CheckpointError, match="d2t is missing"):
        read(folder, TARGET)


@pytest.mark.parametrize("write", [heads.eagle_3, heads.speculators_eagle_3])
def test_a_chain_with_a_small_vocabulary_has_an_output_matrix_of_its_own(
    tmp_path: Path, write: Write
) -> None:
    """All that are published do: one without was cut short, and would guess by the target's rows."""
    folder = write(tmp_path)
    without(folder, "lm_head.weight")
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is missing"):
        read(folder, TARGET)


def test_weights_in_another_format_are_named(tmp_path: Path) -> None:
    folder = heads.eagle_1(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match=r"no safetensors file, but pytorch_model.bin: convert"
    ):
        read(folder, TARGET)


def test_a_tensor_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    folder = heads.zlab_dflash(tmp_path)
    tensors = load_file(folder / "model.safetensors") | {"selector.weight": torch.ones(2)}
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"selector\.weight is unexpected"):
        read(folder, TARGET)
