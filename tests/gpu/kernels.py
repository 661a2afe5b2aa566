"""On the device: are kernels right, and how near to its bounds are they?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.attention import Kind
from engine.attention_flashinfer import FlashinferAttention
from engine.attention_triton import TritonAttention
from engine.batch import Row, numbers
from engine.config import EngineConfig, KvDtype
from engine.errors import EngineError
from engine.kv import capability, check
from protocol.messages import Sampling
from tests.contracts.attention import dealt, expected, model
from tests.gpu.clock import Table, copied, multiplied, seconds
from tests.kernels.case_judge import RULES, compared
from verifier.config import VerifierConfig
from verifier.judge_triton import TritonJudge
from verifier.step import Work


@dataclass(frozen=True)
class Scale:
    """How large things are: those of a device, or of a rehearsal without one."""

    device: str
    heads: tuple[int, int, int] = (32, 8, 128)
    decode: tuple[tuple[int, int], ...] = ((64, 4096), (64, 32768))
    chunk: tuple[int, int] = (2048, 6144)
    requests: int = 256
    drafts: int = 8
    vocabulary: int = 151_936
    copied: int = 4 << 30
    product: int = 8192
    judged: int = 60
    dtype: torch.dtype = torch.bfloat16


REHEARSAL = Scale(
    device="cpu", heads=(4, 2, 16), decode=((3, 40),), chunk=(24, 40), requests=2,
    drafts=1, vocabulary=500, copied=1 << 16, product=32, judged=6, dtype=torch.float32,
)  # fmt: skip


def right(scale: Scale, table: Table) -> None:
    """Attention against double precision, judges against the CPU."""
    for size in (64, 128, 256) if scale.device != "cpu" else (16,):
        counts = [(1, 600), (9, 41), (64, 1100), (130, 0), (1, 0)]
        rows, pages = dealt(counts if scale.device != "cpu" else [(1, 20), (3, 5)], 16)
        tree = Row([1] * 4, 33, list(range(pages, pages + 3)), 0, [1, 3, 5, 11])
        rows.append(tree)
        made = _attention(scale, (8, 2, size), pages + 3)
        torch.manual_seed(size)
        kv = torch.randn(pages + 3, 16, 2, 2, size, device=scale.device).to(scale.dtype)
        tokens = sum(len(row.tokens) for row in rows)
        q = torch.randn(tokens, 8, size, device=scale.device).to(scale.dtype)
        for name, kind in (
            ("", Kind()),
            (", window", Kind(window=100)),
            (", bent", Kind(softcap=5.0)),
        ):
            ours = made.prepare(rows)(q, kv, kind).cpu().double()
            exact = expected(q.cpu(), kv.cpu(), rows, kind)
            table.right(f"attention, D {size}{name}", float((ours - exact).abs().max()), 2e-2)
        _short(scale, table, size)
        _second(scale, table, size)
    for rule in RULES:
        compared(rule, scale.judged, seed=7, device=scale.device)
        table.add(f"judge, rule {rule}", "as on the CPU", f"{scale.judged} windows")


def _short(scale: Scale, table: Table, size: int) -> None:
    """Pages in numbers of one byte: stored as torch rounds them, and read as they are."""
    rows, pages = dealt([(64, 40), (1, 30)], 16)
    made = _attention(scale, (8, 2, size), pages)
    attend = made.prepare(rows)
    slots = torch.tensor(numbers(rows, 16)[2], device=scale.device)
    kinds: dict[KvDtype, torch.dtype] = {"fp8": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
    for name, kind in kinds.items():
        if check_kv(scale.device, name):
            table.add(f"{name} pages, D {size}", "this GPU has no such numbers")
            continue
        torch.manual_seed(size)
        kv = torch.randn(pages, 16, 2, 2, size, device=scale.device).to(kind)
        qkv = (torch.randn(65, 12, size, device=scale.device) * 200).to(scale.dtype)
        still = torch.ones(65, 1, size), torch.zeros(65, 1, size)
        angles = [each.to(qkv) for each in still]
        new = qkv[:, 8:].float()
        largest = torch.finfo(kind).max
        wanted = new.clamp(-largest, largest).to(kind).float()
        q = attend.store(qkv, angles[0], angles[1], slots, kv) / 200
        kept = kv.view(torch.uint8).view(-1, 4, size)[slots].view(kind).float()
        table.right(f"{name} stored, D {size}", float((kept - wanted).abs().max()), 0)
        exact = expected(q.cpu(), kv.float().cpu(), rows)
        error = (attend(q, kv).cpu().double() - exact).abs() / kv.float().abs().max().cpu()
        table.right(f"{name} pages, D {size}", float(error.max()), 2e-2)


def _second(scale: Scale, table: Table, size: int) -> None:
    """The same contract for `flashinfer`, where it is installed."""
    rows, pages = dealt([(1, 600), (9, 41), (64, 1100), (130, 0), (1, 0)], 16)
    config = EngineConfig(
        pages=pages, max_context=65536, device=scale.device, attention="flashinfer"
    )
    try:
        made = FlashinferAttention(model(8, 2, size), config)
    except EngineError as error:
        table.add(f"flashinfer, D {size}", f"not run: {error}")
        return
    torch.manual_seed(size)
    kv = torch.randn(pages, 16, 2, 2, size, device=scale.device).to(scale.dtype)
    q = torch.randn(205, 8, size, device=scale.device).to(scale.dtype)
    for name, kind in (
        ("", Kind()),
        (", window", Kind(window=100)),
        (", bent", Kind(softcap=5.0)),
    ):
        what = f"flashinfer, D {size}{name}"
        try:
            ours = made.prepare(rows)(q, kv, kind).cpu().double()
        except (RuntimeError, OSError) as error:  # it compiles its kernels when they are first used
            table.add(what, f"failed: {str(error).splitlines()[0]}")
            table.failed.append(what)
            continue
        exact = expected(q.cpu(), kv.cpu(), rows, kind)
        table.right(what, float((ours - exact).abs().max()), 2e-2)


def check_kv(device: str, kv_dtype: KvDtype) -> str:
    """Why pages on this device cannot hold such numbers; empty: they can."""
    config = EngineConfig(
        pages=1, max_context=16, device=device, attention="triton", kv_dtype=kv_dtype
    )
    try:
        check(config, capability(device))
    except EngineError as error:
        return str(error)
    return ""


def fast(scale: Scale, table: Table) -> None:
    """Fractions of what a copy and a product of matrices reach on this device."""
    memory, matrix = copied(scale.device, scale.copied), multiplied(scale.device, scale.product)
    table.add("memory, by a copy", f"{memory / 1e12:.2f} TB/s")
    table.add("matrix units, by a product", f"{matrix / 1e12:.0f} TFLOP/s")
    for requests, context in scale.decode:
        spent, size, _ = _attended(scale, [(1, context - 1)] * requests)
        share = size / spent / memory
        name = f"attention, {requests} x 1 token, context {context}"
        table.add(name, f"{spent * 1e6:.0f} us, {share:.0%} of memory", "80% of memory")
    new, before = scale.chunk
    spent, _, work = _attended(scale, [(new, before)])
    name = f"attention, chunk of {new} behind {before}"
    table.add(name, f"{spent * 1e6:.0f} us, {work / spent / matrix:.0%} of matrix", "60% of matrix")
    _judged(scale, table, memory)


def _attention(scale: Scale, heads: tuple[int, int, int], pages: int) -> TritonAttention:
    config = EngineConfig(
        pages=pages, max_context=65536, device=scale.device, page_size=16, attention="triton"
    )
    return TritonAttention(model(*heads), config)


def _attended(scale: Scale, counts: Sequence[tuple[int, int]]) -> tuple[float, int, float]:
    """Seconds, bytes of keys and values, and operations, of one layer."""
    A, K, D = scale.heads
    rows, pages = dealt(counts, 16)
    attend = _attention(scale, scale.heads, pages).prepare(rows)
    kv = torch.randn(pages, 16, 2, K, D, device=scale.device, dtype=scale.dtype)
    q = torch.randn(sum(new for new, _ in counts), A, D, device=scale.device, dtype=scale.dtype)
    spent = seconds(lambda: attend(q, kv), scale.device)
    size = sum(new + before for new, before in counts) * 2 * K * D * kv.itemsize
    seen = sum(new * before + new * (new + 1) / 2 for new, before in counts)
    return spent, size, 4.0 * seen * A * D


def _judged(scale: Scale, table: Table, memory: float) -> None:
    draws = scale.drafts + 1
    source = np.random.default_rng(0)
    filters: dict[str, Any] = {"top_k": 50, "top_p": 0.9}
    for name, how in (("", {}), (", top-k 50, top-p 0.9", filters)):
        works = [
            Work(
                request=number, tokens=(1, *source.integers(0, scale.vocabulary, scale.drafts).tolist()),
                start=99, pages=(), drafts=scale.drafts, draws=draws, choice=0,
                sampling=Sampling(temperature=0.8, seed=number, **how),
            )
            for number in range(scale.requests)
        ]  # fmt: skip
        logits_NV = torch.randn(scale.requests * draws, scale.vocabulary, device=scale.device)
        logits_NV *= 3
        judge = TritonJudge(VerifierConfig(model=".", rule="match", device=scale.device))
        spent = seconds(lambda: judge(works, logits_NV), scale.device, 5)  # noqa: B023  # called at once
        read = logits_NV.numel() * 4
        guesses_NK = torch.tensor([[*work.guesses, 0] for work in works]).view(-1, 1)
        there_NK = guesses_NK.to(scale.device)
        plain = seconds(lambda: _plain(logits_NV, there_NK, how), scale.device, 5)  # noqa: B023
        shape = f"{scale.requests} x {draws} x {scale.vocabulary}"
        table.add(
            f"judge with its host, {shape}{name}",
            f"{spent * 1e3:.2f} ms, {read / spent / memory:.0%} of memory, {plain / spent:.1f}x plain",
            "70% of memory, 3x plain",
        )


def _plain(logits_NV: Tensor, guesses_N1: Tensor, how: dict[str, Any]) -> list[bool]:
    """What a few lines of PyTorch make of the same: filters by sorting, draws, comparisons."""
    scaled_NV = logits_NV / 0.8
    if how:
        kept = scaled_NV.topk(int(how["top_k"]), dim=-1).values[:, -1:]
        scaled_NV = scaled_NV.masked_fill(scaled_NV < kept, -torch.inf)
        sorted_NV, order_NV = scaled_NV.sort(dim=-1, descending=True)
        before_NV = sorted_NV.softmax(-1).cumsum(-1) - sorted_NV.softmax(-1)
        sorted_NV = sorted_NV.masked_fill(before_NV > how["top_p"], -torch.inf)
        scaled_NV = torch.full_like(scaled_NV, -torch.inf).scatter(1, order_NV, sorted_NV)
    drawn_N1 = torch.multinomial(scaled_NV.softmax(-1), 1)
    same: list[bool] = (drawn_N1 == guesses_N1)[:, 0].tolist()
    return same
