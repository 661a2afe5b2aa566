"""Draft heads on the device: guesses beside the CPU's, the bias of DSpark beside PyTorch, and what a round costs."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.nn.functional import linear

from drafter.checkpoints import Head, Target
from drafter.heads.block import BlockHead
from drafter.heads.blocks import BlockProposer
from drafter.heads.chain import ChainHead
from drafter.heads.memory import Memory
from drafter.heads.slots import at_once, one_by_one
from drafter.mirror import Mirror
from drafter.proposers.eagle3 import ChainProposer
from engine.config import EngineConfig
from engine.device import Device
from engine.markov_triton import MarkovBias
from engine.models.config import ModelConfig
from protocol.messages import Sampling
from protocol.tensor import Tensor as Sent
from tests import heads as tiny
from tests.drafter.on_device import (
    KINDS,
    SLICES,
    WISHES,
    Proposer,
    drafted,
    made,
    mirrors_of,
    tell,
)
from tests.drafter.stories import commit, extend, mirror_of
from tests.gpu.clock import Table, copied, seconds
from tests.models import write_byte_llama

WANT: Final = 5


@dataclass(frozen=True)
class Size:
    """Of heads for one target, and of what is asked of them; `where` is what computes them."""

    where: Device
    shape: Mapping[str, int]
    vocabulary: int
    known: int  # tokens of the vocabulary that the chain has
    rank: int
    blocks: tuple[int, int]  # of DFlash and of DSpark
    layers: int
    prompt: int
    mirrors: tuple[int, ...]
    dtype: Any
    copied: int
    rounds: int


FULL: Final = Size(
    Device("cuda", kernels=True),
    {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
     "num_key_value_heads": 8, "head_dim": 128},
    151_936, 32_000, 256, (16, 7), 5, 512, (1, 8, 32, 64), "bfloat16", 4 << 30, 20,
)  # fmt: skip
SMALL: Final = Size(
    Device("cpu", kernels=True),
    {"hidden_size": 64, "intermediate_size": 80, "num_attention_heads": 4,
     "num_key_value_heads": 2, "head_dim": 16},
    900, 300, 16, (4, 3), 2, 20, (1, 2), "float32", 1 << 16, 1,
)  # fmt: skip


def compare_heads(table: Table, size: Size) -> None:
    """All that there is to tell of heads."""
    _right(table, size.where)
    _bias(table, size)
    for method, hot in (("eagle3", False), ("dflash", False), ("dspark", False), ("dspark", True)):
        for mirrors in size.mirrors:
            _round(table, size, method, mirrors, hot=hot)


def _right(table: Table, where: Device) -> None:
    """Tiny heads in float32 guess what they guess on the CPU; decisions that are close may fall otherwise."""
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / "target"
        target.mkdir()
        write_byte_llama(target)
        for number, (kind_name, kind) in enumerate(KINDS.items()):
            folder = kind.write(Path(name) / str(number))
            differ = count = 0
            for wishes, asked in WISHES.items():
                how = "probabilistic" if wishes in SLICES else "greedy"
                said = []
                for device in (Device(), where):
                    proposer = made(kind, folder, target, device, draft_sample_method=how)
                    mirrors = mirrors_of(asked, SLICES.get(wishes, ()))
                    tell(proposer, mirrors, kind.states * tiny.HIDDEN)
                    said.append(drafted(proposer, mirrors, WANT))
                pairs = list(zip(*said, strict=True))
                differ += sum(list(one.tokens) != list(other.tokens) for one, other in pairs)
                count += len(pairs)
            table.right(f"head, {kind_name}, guesses that differ", differ / count, 0.05)


def _bias(table: Table, size: Size) -> None:
    """The loop of the vanilla bias: whole numbers, of which every order makes the same sums, and its time."""
    on = size.where.name
    kind: torch.dtype = getattr(torch, size.dtype)
    memory = copied(on, size.copied)
    slots, V, M = size.blocks[1], size.vocabulary, size.rank
    torch.manual_seed(0)
    from_VM, to_VM = (torch.randint(-2, 3, (V, M), device=on).to(kind) for _ in range(2))
    bias = MarkovBias(from_VM, to_VM)
    for mirrors in size.mirrors:
        base_JRV = torch.randint(-9, 10, (slots, mirrors, V), device=on).float()
        before_R = torch.arange(mirrors, device=on)

        def plain() -> Tensor:
            tokens, token_R = [], before_R  # noqa: B023  # called at once
            for base_RV in base_JRV:  # noqa: B023
                token_R = (base_RV + linear(from_VM[token_R], to_VM).float()).argmax(dim=-1)
                tokens.append(token_R)
            return torch.stack(tokens)

        token_JR, _ = bias.likeliest(base_JRV, before_R)
        exact_R, differ = before_R, 0
        for base_RV, token_R in zip(base_JRV, token_JR, strict=True):
            own_RV = (from_VM[exact_R].double() @ to_VM.double().T).to(kind)
            exact_R = (base_RV.double() + own_RV.double()).cpu().argmax(dim=-1).to(on)
            differ += int((exact_R != token_R).sum())
        name = f"bias, {mirrors} x {slots} slots, vocabulary {V}, rank {M}"
        table.right(f"{name}, tokens that differ", float(differ), 0.0)
        spent = seconds(lambda: bias.likeliest(base_JRV, before_R), on)  # noqa: B023
        usual = seconds(plain, on)
        least = slots * (to_VM.nbytes + mirrors * V * 4)
        table.add(
            name,
            f"{spent * 1e6:.0f} us, {least / spent / memory:.0%} of memory, {usual / spent:.1f}x plain",
        )


class RandomHead:
    """What a checkpoint of such a head would hold, if it were random; see `drafter.heads.weights.HeadWeights`."""

    def __init__(self, size: Size, method: str) -> None:
        self.device = size.where
        self.dtype: torch.dtype = getattr(torch, size.dtype)
        layers = 1 if method == "eagle3" else size.layers
        source = transformers.Qwen3Config(
            **size.shape, vocab_size=size.vocabulary, num_hidden_layers=layers,
            max_position_embeddings=4096, tie_word_embeddings=False,
        )  # fmt: skip
        model = ModelConfig.translate(source, [2])
        small = method == "eagle3"
        block = {"dflash": size.blocks[0], "dspark": size.blocks[1]}.get(method, 0)
        self._known = size.known if small else size.vocabulary
        self._shapes = dict(_shapes(model, method, self._known, size.rank))
        self.head = Head(
            kind=method,  # type: ignore[arg-type]  # which it is
            dialect="random", folder=Path(), model=model, states=(1, 2, 3),
            names={name: name for name in self._shapes}, vocab=self._known,
            target=Target(36, model.hidden, model.vocab, tied=False, positions=4096),
            block=block, mask_token=4, from_anchor=method == "dspark",
            markov="vanilla" if method == "dspark" else "",
            rank=size.rank if method == "dspark" else 0,
            confidence=method == "dspark", confidence_with_markov=method == "dspark",
        )  # fmt: skip

    def __contains__(self, name: str) -> bool:
        return name in self._shapes

    def read(self, name: str) -> Tensor:
        shape = self._shapes[name]
        scale = 1.0 if len(shape) == 1 else 0.02
        return torch.randn(shape, dtype=self.dtype, device=self.device.name) * scale

    def get(self, name: str) -> Tensor | None:
        return self.read(name) if name in self else None

    def ids(self) -> Tensor | None:
        whole = self._known == self.head.target.vocab
        return None if whole else torch.arange(self._known) * 2


def _shapes(
    model: ModelConfig, method: str, known: int, rank: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    H, D, inner = model.hidden, model.head_dim, model.source.intermediate_size
    yield from {
        "embed_tokens.weight": (model.vocab, H), "lm_head.weight": (known, H), "norm.weight": (H,),
    }.items()  # fmt: skip
    if method == "dspark":
        yield from {
            "markov_head.markov_w1.weight": (model.vocab, rank),
            "markov_head.markov_w2.weight": (known, rank),
            "confidence_head.proj.weight": (1, H + rank), "confidence_head.proj.bias": (1,),
        }.items()  # fmt: skip
    inputs = 2 * H if method == "eagle3" else H
    for at in (f"layers.{index}." for index in range(model.layers)):
        yield from {
            f"{at}self_attn.q_proj.weight": (model.heads * D, inputs),
            f"{at}self_attn.k_proj.weight": (model.kv_heads * D, inputs),
            f"{at}self_attn.v_proj.weight": (model.kv_heads * D, inputs),
            f"{at}self_attn.o_proj.weight": (H, model.heads * D),
            f"{at}self_attn.q_norm.weight": (D,), f"{at}self_attn.k_norm.weight": (D,),
            f"{at}mlp.gate_proj.weight": (inner, H), f"{at}mlp.up_proj.weight": (inner, H),
            f"{at}mlp.down_proj.weight": (H, inner), f"{at}input_layernorm.weight": (H,),
            f"{at}post_attention_layernorm.weight": (H,),
        }.items()  # fmt: skip
    if method == "eagle3":
        yield "layers.0.hidden_norm.weight", (H,)


def _proposer(size: Size, method: str) -> Proposer:
    """Of a random head whose rows come projected."""
    weights: Any = RandomHead(size, method)
    head, where = weights.head, size.where
    context = size.prompt + 256
    config = EngineConfig(
        pages=max(size.mirrors) * (context // 16 + 2), max_context=context, dtype=size.dtype,
        device=where.name, attention=where.attention,
    )  # fmt: skip
    memory = Memory(head.model, config, head.model.hidden, size.dtype, device=where)
    if method == "eagle3":
        chain = ChainHead(weights, None, projected=True)
        return ChainProposer(chain, memory, (), overlap=False)
    choose = at_once if method == "dflash" else one_by_one
    return BlockProposer(BlockHead(weights, None, projected=True), memory, (), choose)


def _round(table: Table, size: Size, method: str, count: int, *, hot: bool) -> None:
    """From a commit of one token and its row to the next guesses, with all that the host does for them."""
    proposer = _proposer(size, method)
    prompt = [7 + place % 90 for place in range(size.prompt)]
    how = Sampling(temperature=0.8, top_k=50, top_p=0.9, seed=3) if hot else Sampling()
    mirrors = [mirror_of(prompt, [9], request=each, sampling=how) for each in range(count)]
    want = WANT if method == "eagle3" else max(size.blocks)
    for mirror in mirrors:
        proposer.open(mirror)
        _rows(proposer, mirror, size, 0, size.prompt)
    _drafted(proposer, mirrors, want)
    spent = []
    for _ in range(size.rounds + 3):
        for mirror in mirrors:
            commit(proposer, mirror, [11])
        began = time.perf_counter()
        for mirror in mirrors:
            end = len(mirror.prompt) + mirror.base - 1
            _rows(proposer, mirror, size, end - 1, end)
        guesses = _drafted(proposer, mirrors, want)
        spent.append(time.perf_counter() - began)
        assert guesses >= count * min(want, 3)
    name = f"round of {method}{', top-k 50, top-p 0.9' if hot else ''}, {count} requests"
    each = guesses // count
    table.add(name, f"{float(np.median(spent[3:] or spent)) * 1e3:.2f} ms for {each} guesses each")


def _rows(proposer: Proposer, mirror: Mirror, size: Size, start: int, end: int) -> None:
    itemsize = getattr(torch, size.dtype).itemsize
    shape = (end - start, size.shape["hidden_size"])
    proposer.hidden(mirror, start, Sent(size.dtype, shape, bytes(shape[0] * shape[1] * itemsize)))


def _drafted(proposer: Proposer, mirrors: list[Mirror], want: int) -> int:
    """Ask until there is no more; how many guesses that were."""
    count, pending = 0, True
    while pending:
        wants = [(mirror, mirror.base + want - len(mirror.line)) for mirror in mirrors]
        proposals = proposer.propose(wants)
        for mirror, each in zip(mirrors, proposals, strict=True):
            extend(mirror, each)
        count += sum(len(each.tokens) for each in proposals)
        pending = any(each.pending for each in proposals)
    return count
