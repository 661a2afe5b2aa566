"""A head on a device that is not here: torch's fake tensors say where each number is, and refuse to say what it is.

So what mixes devices fails, and what makes the host wait for a number fails, but for the one way that is meant. The
device is one that PyTorch lets Python register, once a process: those of a GPU are not sliced without its driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from drafter.checkpoints import Head, Target, read
from drafter.heads.block import BlockHead
from drafter.heads.blocks import BlockProposer
from drafter.heads.chain import ChainHead
from drafter.heads.memory import Memory
from drafter.heads.slots import at_once, one_by_one
from drafter.heads.weights import HeadWeights
from drafter.proposers.eagle3 import ChainProposer
from engine.attention import PLAIN, Kind
from engine.batch import Row
from engine.config import EngineConfig
from engine.device import Device
from engine.markov_triton import Narrow
from protocol.messages import Sampling
from tests import heads
from tests.drafter.on_device import KINDS, WISHES, Proposer, mirrors_of, tell
from tests.drafter.on_device import Kind as HeadKind

_setup_privateuseone_for_python_backend("far")
FAR: Final = "far:0"
TARGET: Final = Target(layers=2, hidden=heads.HIDDEN, vocab=heads.VOCAB, tied=False, positions=1024)


@dataclass(frozen=True)
class Far(Device):
    """A device whose numbers nobody knows; it counts how often the host waits for some."""

    name: str = FAR
    kernels: bool = True
    waits: list[int] = field(default_factory=list)

    def up(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
        return {
            name: torch.empty(array.shape, dtype=getattr(torch, str(array.dtype)), device=self.name)
            for name, array in arrays.items()
        }

    def down(self, tensors: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
        assert all(str(each.device) == self.name for each in tensors)
        self.waits.append(len(tensors))
        kinds = (str(each.dtype).removeprefix("torch.") for each in tensors)
        return [np.ones(tuple(each.shape), kind) for each, kind in zip(tensors, kinds, strict=True)]


class FarWeights(HeadWeights):
    """Tensors of the right shapes."""

    def raw(self, name: str) -> Tensor:
        place = self.head.names[name]
        return torch.empty(self._files[place].get_slice(place).get_shape())


class FarAttention:
    """What kernels would do to shapes."""

    def prepare(self, rows: Sequence[Row], *, causal: bool = True) -> "FarAttention":
        del causal
        assert rows
        return self

    def store(
        self, qkv_TXD: Tensor, cos_T1D: Tensor, sin_T1D: Tensor, slots_T: Tensor, kv_PS2KD: Tensor
    ) -> Tensor:
        turned = qkv_TXD * cos_T1D + qkv_TXD * sin_T1D
        keys = kv_PS2KD.shape[3]
        kv_PS2KD.view(-1, 2 * keys, kv_PS2KD.shape[4]).index_copy_(
            0, slots_T, turned[:, -2 * keys :]
        )
        return turned[:, : -2 * keys]

    def __call__(self, q_TAD: Tensor, kv_PS2KD: Tensor, kind: Kind = PLAIN) -> Tensor:
        del kind
        return q_TAD.flatten(1) + kv_PS2KD.sum()


class FarBias:
    """What the kernel of the bias would do to shapes."""

    def likeliest(
        self, base_JRU: Tensor, before_R: Tensor, narrow: Narrow | None = None
    ) -> tuple[Tensor, Tensor]:
        for slot in range(len(base_JRU)):
            assert narrow is None or str(narrow(slot, before_R).device) == FAR
        return base_JRU.argmax(dim=-1), base_JRU.amax(dim=-1)

    def add(self, logits_RU: Tensor, narrow_RM: Tensor, heat_R: Tensor) -> None:
        assert {str(each.device) for each in (logits_RU, narrow_RM, heat_R)} == {FAR}


def far(kind: HeadKind, head: Head, device: Far, *, samples: bool) -> Proposer:
    config = EngineConfig(pages=64, max_context=256, dtype="float32", device=FAR)
    memory = Memory(
        head.model, config, heads.HIDDEN, "float32", device=device, attention=FarAttention()
    )
    shared = (torch.empty(heads.VOCAB, heads.HIDDEN), torch.empty(heads.VOCAB, heads.HIDDEN))
    with FarWeights(head, torch.float32, device) as weights:
        if kind.method == "eagle3":
            chain = ChainHead(weights, shared, projected=True)
            return ChainProposer(chain, memory, (), overlap=False, samples=samples)
        block = BlockHead(weights, shared, projected=True)
    if block.fused is not None:
        block.fused = FarBias()  # type: ignore[assignment]
    choose = at_once if kind.method == "dflash" else one_by_one
    return BlockProposer(block, memory, (), choose, samples=samples)


HOT: Final = [Sampling(temperature=0.8, top_k=4, top_p=0.9, seed=seed) for seed in range(3)]


@pytest.mark.parametrize("laws", [False, True])
@pytest.mark.parametrize(
    "name", ["eagle-1", "dflash", "dspark, vanilla", "dspark, gated", "dspark, rnn"]
)
def test_the_host_waits_once_a_round(tmp_path: Path, name: str, laws: bool) -> None:
    """A chain of five guesses of three requests, or a block for each of them: one copy, whatever is told of them."""
    device, kind = Far(), KINDS[name]
    head = read(kind.write(tmp_path), TARGET)
    with FakeTensorMode():
        proposer = far(kind, head, device, samples=laws)
        mirrors = mirrors_of(HOT, (8, 6, 2)) if laws else mirrors_of(WISHES["greedy"])
        tell(proposer, mirrors, heads.HIDDEN)
        assert device.waits == []
        proposals = proposer.propose([(mirror, 5) for mirror in mirrors])
    assert [len(each.tokens) for each in proposals] == [5, 5, 5]
    assert [len(each.laws) for each in proposals] == [5 * laws] * 3
    assert len(device.waits) == 1
