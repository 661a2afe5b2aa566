"""A model folder that brings code along: whoever reads it, that code is not run unless one setting says so."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import transformers

from drafter.config import DrafterConfig
from drafter.proposers import PROPOSERS
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.runner import Engine
from orchestrator.front.text import Tokenizer
from orchestrator.models import ModelError, resolve
from tests.models import write_byte_llama

CODE: Final = """
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

Path(__file__).with_name("ran").touch()
Path({marker!r}).touch()


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig


class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def trap(tmp_path: Path) -> tuple[Path, Path]:
    """The folder, and the file that is there once its code has run."""
    folder, marker = tmp_path / "model", tmp_path / "marker"
    folder.mkdir()
    write_byte_llama(folder)
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    config = json.loads((folder / "config.json").read_text())
    kinds = ("AutoConfig", "OwnConfig"), ("AutoModelForCausalLM", "OwnForCausalLM")
    config |= {
        "model_type": "own",
        "architectures": ["OwnForCausalLM"],
        "auto_map": {kind: f"own.{name}" for kind, name in kinds},
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer |= {
        "tokenizer_class": "OwnTokenizer",
        "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", "own.OwnTokenizer"]},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder, marker


SMALL: Final = EngineConfig(pages=4, max_context=64, dtype="float32")


def _drafts(method: str) -> Callable[[Path], object]:
    return lambda folder: PROPOSERS[method](
        DrafterConfig(method=method, model=folder, target=folder, dtype="float32")
    )


LOADERS: Final[Mapping[str, Callable[[Path], object]]] = {
    "target": lambda folder: Engine.load(folder, SMALL),
    "target through transformers": lambda folder: Engine.load(
        folder, EngineConfig(pages=4, max_context=64, implementation="transformers")
    ),
    "draft model": _drafts("standalone"),
    "draft head": _drafts("eagle3"),
    "draft blocks": _drafts("dflash"),
    "text of the target": _drafts("ngram"),
    "tokenizer": Tokenizer,
    "folder": lambda folder: resolve(str(folder)),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_it_is_not_run(trap: tuple[Path, Path], loader: str) -> None:
    folder, marker = trap
    with suppress(EngineError, ValueError, OSError, ModelError):
        LOADERS[loader](folder)
    assert not marker.exists()


@pytest.mark.parametrize("loader", ["target", "draft model"])
def test_a_model_that_needs_it_is_refused_and_the_setting_is_named(
    trap: tuple[Path, Path], loader: str
) -> None:
    folder, _ = trap
    with pytest.raises((EngineError, ValueError), match="trust_remote_code"):
        LOADERS[loader](folder)


def test_the_trap_would_be_noticed(trap: tuple[Path, Path]) -> None:
    folder, marker = trap
    transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    assert marker.exists()
