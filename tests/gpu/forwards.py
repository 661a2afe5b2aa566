"""Models with random weights on the device: graphs against forwards without, and what a step costs."""

import time
from typing import Any

import torch
import transformers
from torch import Tensor

from engine.buckets import buckets
from engine.config import EngineConfig
from engine.graphs import CudaRecorder, GraphedEngine, Recorder
from engine.models.config import ModelConfig
from engine.models.llama import Llama
from engine.models.llama_shape import LlamaShape
from engine.rotary import tables
from engine.runner import Engine, Row
from protocol.messages import Sampling
from tests.gpu.clock import Table, seconds
from verifier.config import SyntheticConfig, VerifierConfig
from verifier.judge_triton import TritonJudge
from verifier.step import Step, Work
from verifier.worker import EngineWorker

CLASSES: dict[str, dict[str, int]] = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128_256},
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
           "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128_256},
    "tiny": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 3000},
}  # fmt: skip
DRAFTS = 7


class RandomWeights:
    """What a checkpoint of this shape would hold, if it were random."""

    def __init__(self, shape: LlamaShape, dtype: torch.dtype, device: str) -> None:
        self._shapes = shape.expected()
        self._dtype, self._device = dtype, device

    def read(self, name: str, rows: slice | None = None, columns: slice | None = None) -> Tensor:
        size = self._shapes[name]
        scale = 1.0 if len(size) == 1 else 0.02
        whole = torch.randn(size, dtype=self._dtype, device=self._device) * scale
        whole = whole if rows is None else whole[rows]
        return whole if columns is None else whole[:, columns]


def engine(kind: str, device: str, dtype: Any, pages: int, context: int) -> Engine:  # noqa: ANN401
    """Such a model over pages."""
    source = transformers.LlamaConfig(
        **CLASSES[kind], max_position_embeddings=max(8192, context), tie_word_embeddings=True
    )
    model = ModelConfig.translate(source, [2])
    config = EngineConfig(
        pages=pages, max_context=context, dtype=dtype, device=device, page_size=16, spare=True,
        attention="triton",
    )  # fmt: skip
    numbers: torch.dtype = getattr(torch, dtype)
    shape = LlamaShape.of(model)
    cos, sin = tables(model, context, numbers)
    weights: Any = RandomWeights(shape, numbers, device)
    with torch.no_grad():
        decoder = Llama(shape, weights, (cos.to(device), sin.to(device)))
    return Engine(config, model, decoder)


def steps(kind: str, device: str, table: Table, *, recorder: Recorder | None = None) -> None:
    """Windows of all concurrencies: with and without graphs, judged by a curve; and the host's share of a step."""
    small = device == "cpu"
    context, most = (256, 2) if small else (4096, 64)
    pages = most * context // 16
    made = engine(kind, device, "float32" if small else "bfloat16", pages, context)
    sizes = buckets(most * (DRAFTS + 1))
    graphed = GraphedEngine(made, sizes, most, recorder or CudaRecorder(device))
    began = time.perf_counter()
    graphed.capture()
    table.add(f"{kind}: {len(sizes.sizes)} graphs", f"{time.perf_counter() - began:.1f} s")
    config = VerifierConfig(
        model=".", device=device, rule="synthetic", synthetic=SyntheticConfig(length=3.6)
    )
    judge = TritonJudge(config)
    for requests in (1, 2) if small else (1, 8, 32, 64):
        for drafts in (0, DRAFTS):
            works = [_work(number, context // 2, drafts, context) for number in range(requests)]
            rows = [Row(each.tokens, each.start, each.pages, each.logits) for each in works]
            if requests in {2, 8}:
                _same(kind, made, graphed, rows, table)
            plain = seconds(lambda: made.forward(rows), device, 5)  # noqa: B023  # called at once
            fast = seconds(lambda: graphed.forward(rows), device)  # noqa: B023
            table.add(
                f"{kind}: {requests} x {drafts + 1} tokens, forward",
                f"{fast * 1e3:.2f} ms; {plain * 1e3:.2f} ms without graphs",
            )
            if device != "cpu":
                torch.cuda.synchronize()
            began = time.perf_counter()
            repeats = 1 if small else 10
            for _ in range(repeats):
                verdicts = judge(works, graphed.forward(rows).logits_NV)
            whole = (time.perf_counter() - began) / repeats
            assert len(verdicts) == requests
            if drafts and requests in {2, 8}:
                _waits(kind, graphed, judge, works, table)
            table.add(
                f"{kind}: {requests} x {drafts + 1} tokens, step with verdicts",
                f"{whole * 1e3:.2f} ms, {(whole - fast) * 1e3:.2f} ms of it beside the forward",
                "host under 1 ms at 64",
            )


def _work(number: int, start: int, drafts: int, context: int) -> Work:
    each = context // 16
    return Work(
        request=number, tokens=(1, *range(2, drafts + 2)), start=start,
        pages=tuple(range(number * each, (number + 1) * each)), drafts=drafts, draws=drafts + 1,
        sampling=Sampling(temperature=1.0, seed=number), choice=0,
    )  # fmt: skip


def _waits(
    kind: str, graphed: GraphedEngine, judge: TritonJudge, works: list[Work], table: Table
) -> None:
    """A step is begun without a wait for the device: where PyTorch would wait, it says so instead."""
    worker, step = EngineWorker(graphed, judge), Step(tuple(works))
    worker.run(step)
    device = graphed.engine.config.device
    waits, why = 0, ""
    if device != "cpu":
        torch.cuda.set_sync_debug_mode("error")
    try:
        pending = worker.begin(step, lambda: None)
    except RuntimeError as error:
        waits, why = 1, f" ({error})"
    finally:
        if device != "cpu":
            torch.cuda.set_sync_debug_mode("default")
    if not waits:
        assert len(pending.take()) == len(works)
    table.right(f"{kind}: waits before a step is begun{why}", waits, 0)


def _same(kind: str, made: Engine, graphed: GraphedEngine, rows: list[Row], table: Table) -> None:
    one = made.forward(rows).logits_NV.clone()
    other = graphed.forward(rows).logits_NV
    scale = float(one.abs().max())
    table.right(f"{kind}: graphs against none", float((one - other).abs().max()) / scale, 2e-2)
