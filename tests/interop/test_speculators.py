"""Our heads say what those of the `speculators` library say of the same checkpoint, logit by logit.

The library wants another `transformers`, so it has an environment of its own: the one in the folder that
`DRAFTMESH_SPECULATORS` names, or else one that is made here, once, from the package index.
"""

import os
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from drafter.checkpoints import Target, places, read
from drafter.heads.block import BlockHead
from drafter.heads.chain import ChainHead
from drafter.heads.memory import Context, Memory, Span
from drafter.heads.weights import HeadWeights
from engine.config import EngineConfig
from engine.features import Projection
from engine.pages import PagedSequence
from protocol.rundir import cache_folder
from tests import heads

LIBRARY: Final = (
    "speculators==0.9.0",
    "transformers<=5.19",
    f"torch=={torch.__version__.split('+')[0]}",
)
SCRIPT: Final = Path(__file__).with_name("speculators_logits.py")
TARGET: Final = Target(layers=2, hidden=heads.HIDDEN, vocab=heads.VOCAB, positions=1024)
TOKENS: Final = 24
ANCHOR: Final = 11


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment that has the library."""
    named = os.environ.get("DRAFTMESH_SPECULATORS")
    folder = Path(named) if named else cache_folder() / "interop" / "speculators"
    interpreter = folder / "bin" / "python"
    if not interpreter.is_file():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(interpreter), "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", *LIBRARY], check=True)
        # Their builds are for another torch, and nobody here looks at pictures.
        subprocess.run(
            [*pip, "uninstall", "--quiet", "-y", "torchvision", "torchaudio"], check=True
        )
    return interpreter


class Library:
    """One question to the library, and the same one to us."""

    def __init__(self, folder: Path, python: Path, states: int) -> None:
        generator = torch.Generator().manual_seed(0)
        make = heads.Maker(99)
        self.folder = folder
        self.ids = torch.randint(5, heads.VOCAB, (TOKENS,), generator=generator)
        self.rows = torch.randn(TOKENS, states * heads.HIDDEN, generator=generator)
        self.shared = (
            make.matrix(heads.VOCAB, heads.HIDDEN),
            make.matrix(heads.VOCAB, heads.HIDDEN),
        )
        given = {
            "ids": self.ids,
            "rows": self.rows,
            "anchor": torch.tensor(ANCHOR),
            "embed_tokens.weight": self.shared[0],
            "lm_head.weight": self.shared[1],
        }
        save_file(given, folder / "given.safetensors.in")
        out = folder / "out.safetensors.out"
        subprocess.run([python, SCRIPT, folder, folder / "given.safetensors.in", out], check=True)
        self.said = load_file(out)
        self.head = read(folder, TARGET)
        self.weights = HeadWeights(self.head, torch.float32)
        config = EngineConfig(pages=16, max_context=64, dtype="float32", page_size=4)
        self.memory = Memory(self.head.model, config, self.rows.shape[1], "float32")

    def context(self, length: int) -> Context:
        sequence = PagedSequence("")
        self.memory.pool.reserve(sequence, length)
        return Context(sequence)


CHAINS: Final[dict[str, Callable[[Path], Path]]] = {
    "plain": heads.speculators_eagle_3,
    "normed residual": lambda f: heads.speculators_eagle_3(f, norm_before_residual=True),
    "feeds normed states": lambda f: heads.speculators_eagle_3(f, norm_output=True),
    "a norm before fc": lambda f: heads.speculators_eagle_3(f, norm_before_fc=True),
    "a norm of each state": lambda f: heads.speculators_eagle_3(f, fc_norm=True),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CHAINS)
@torch.no_grad()
def test_eagle_3(tmp_path: Path, python: Path, name: str) -> None:
    library = Library(CHAINS[name](tmp_path), python, states=3)
    head = ChainHead(library.weights, library.shared, projected=False)
    context = library.context(TOKENS + 1)
    ids, place = library.memory.place([Span(context, library.ids.tolist(), 0)])
    out = head.forward(ids, head.states(library.rows), place, library.memory.kv)
    torch.testing.assert_close(head.logits(out), library.said["first"], atol=2e-4, rtol=1e-4)
    ids, place = library.memory.place([Span(context, [0], TOKENS)])  # what the library shifts in
    out = head.forward(ids, head.feed(out[-1:]), place, library.memory.kv)
    torch.testing.assert_close(
        head.logits(out)[0], library.said["second"][-1], atol=2e-4, rtol=1e-4
    )


BLOCKS: Final[dict[str, Callable[[Path], Path]]] = {
    "dflash": heads.speculators_dflash,
    "dspark, vanilla": lambda f: heads.speculators_dspark(f, kind="vanilla"),
    "dspark, gated": lambda f: heads.speculators_dspark(f, kind="gated"),
    "dspark, rnn": heads.speculators_dspark,
}


@pytest.mark.full
@pytest.mark.parametrize("name", BLOCKS)
@torch.no_grad()
def test_a_block(tmp_path: Path, python: Path, name: str) -> None:
    library = Library(BLOCKS[name](tmp_path), python, states=2)
    head, size = BlockHead(library.weights, library.shared, projected=False), library.head.block
    context = library.context(ANCHOR + size)
    _, place = library.memory.place([Span(context, [0] * ANCHOR, 0)])
    head.write(library.rows[:ANCHOR], place, library.memory.kv)
    ids = [int(library.ids[ANCHOR]), *[library.head.mask_token] * (size - 1)]
    flat, place = library.memory.place([Span(context, ids, ANCHOR)], causal=False)
    x = head.forward(flat, place, library.memory.kv)
    logits = head.vocabulary.logits(x)
    sure: list[Tensor] = []
    if head.markov is not None and head.confidence is not None:
        memory = head.markov.start(1)
        for slot in range(size):
            before = head.markov.before(library.ids[ANCHOR + slot : ANCHOR + slot + 1])
            bias, memory = head.markov.step(before, x[slot : slot + 1], memory)
            logits[slot] += bias[0]
            sure.append(head.confidence(x[slot : slot + 1], before, slot))
        torch.testing.assert_close(
            torch.cat(sure), library.said["confidence"], atol=1e-5, rtol=1e-4
        )
    torch.testing.assert_close(logits, library.said["logits"], atol=2e-4, rtol=1e-4)


def test_where_a_verifier_finds_the_projection(tmp_path: Path) -> None:
    """It reads the same tensors, and makes the same rows of them as the head would."""
    head = read(heads.speculators_eagle_3(tmp_path, fc_norm=True), TARGET)
    where = places(head)
    assert where is not None
    assert where.part_norms == ("fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight")
    rows = torch.randn(3, head.captured)
    with HeadWeights(head, torch.float32) as weights:
        chain = ChainHead(weights, None, projected=False)
    applied = Projection.read(where, torch.float32)
    torch.testing.assert_close(applied(rows), chain.states(rows))
