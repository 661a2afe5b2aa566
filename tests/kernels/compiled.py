"""Every kernel compiled for GPUs that are not here: registers, spills and shared memory, by Triton's own tools.

`python -m tests.kernels.compiled` writes the table of `docs/gpu.md` anew; what must hold of it, a test looks at.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.attention_triton import LANES, short, stages
from engine.kernels import attention, markov, sampling, windows
from engine.markov_triton import CHUNK as SLICE
from engine.markov_triton import STEP as STRIDE
from engine.markov_triton import warps
from engine.ragged import SPLIT, Shape
from engine.sampling_triton import CHUNK, PIVOTS, STEP
from engine.sampling_triton import REGISTERS as FILTERING
from tests.generated import rewritten
from verifier.judge_triton import EDITED, REGISTERS

FILE: Final = Path(__file__).parents[2] / "docs" / "gpu.md"
MAKER: Final = "tests.kernels.compiled"
SHARED: Final[Mapping[int, int]] = {80: 163 << 10, 90: 227 << 10}
"""Architectures, and the bytes of shared memory that one program may have there."""
INTS: Final = (
    "last", "table", "tile_row", "tile_token", "tile_count", "tile_keys", "tile_own", "tile_part",
    "part_token", "part_keys",
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A kernel with one set of constants; `kinds` are the types of its other arguments, `i32` where none is told.

    `least` is the first architecture that has the numbers it computes with.
    """

    name: str
    kernel: Any
    kinds: Mapping[str, str]
    constants: Mapping[str, Any]
    warps: int = 4
    stages: int = 2
    divisible: tuple[str, ...] = ()
    registers: int | None = None
    least: int = 80


@dataclass(frozen=True)
class Figures:
    """What one program of a compiled kernel takes; `spilled` are bytes of registers that are kept in memory."""

    registers: int
    spilled: int
    shared: int


def variants() -> Iterator[Variant]:
    """As they are launched for models of the size that GPUs are for."""
    yield from _ragged()
    pointers = {"out": "*bf16", "partial": "*fp32", "weight": "*fp32", "sinks": "*i32"}
    yield Variant(
        "merge, D 128", attention.merge,
        pointers | {"part_token": "*i32", "part_keys": "*i32"},
        {"A": 32, "D": 128, "WIDE": 128, "SPLIT": SPLIT, "SINKS": False},
    )  # fmt: skip
    for text, kind, numbers in (
        ("", "*bf16", torch.bfloat16),
        (", fp8 KV", "*fp8e4nv", torch.float8_e4m3fn),
        (", fp8_e5m2 KV", "*fp8e5", torch.float8_e5m2),
    ):
        yield Variant(
            f"turn_and_store, D 128{text}", attention.turn_and_store,
            {"qkv": "*bf16", "kv": kind, "cos": "*bf16", "sin": "*bf16", "slots": "*i64"},
            {"A": 32, "K": 8, "D": 128, "HEADS": 8, "HALF": 64, **short(numbers)},
            least=89 if kind == "*fp8e4nv" else 80,
        )  # fmt: skip
    yield from _sampling()
    yield from _markov()


def _ragged() -> Iterator[Variant]:
    kinds = (
        dict.fromkeys(INTS, "*i32")
        | {"out": "*bf16", "q": "*bf16", "kv": "*bf16", "partial": "*fp32", "weight": "*fp32"}
        | {"sinks": "*i32", "seen": "*i32", "scale": "fp32", "softcap": "fp32"}
    )
    for text, longest, size, more in (
        ("one token, D 64", 1, 64, {}),
        ("one token, D 128", 1, 128, {}),
        ("one token, D 256", 1, 256, {}),
        ("window of 8, D 128", 8, 128, {}),
        ("chunk, D 64", 512, 64, {}),
        ("chunk, D 128", 512, 128, {}),
        ("chunk, D 256", 512, 256, {}),
        ("tree of 32, D 128", 32, 128, {"TREE": True}),
        ("window of 8, D 128, all kinds", 8, 128, {"WINDOW": True, "SOFTCAP": True, "SINKS": True}),
        ("window of 8, D 128, fp16", 8, 128, {"q": "*fp16"}),
        ("window of 8, D 128, fp8 KV", 8, 128, {"kv": "*fp8e4nv"}),
        ("window of 8, D 128, fp8_e5m2 KV", 8, 128, {"kv": "*fp8e5"}),
    ):
        shape = Shape(longest, 4, size)
        constants = {
            "K": 8, "G": 4, "D": size, "PAGE": 16, "M": shape.queries, "N": shape.keys,
            "WIDE": size, "SPLIT": SPLIT, "LANES": LANES, "TREE": False, "WINDOW": False,
            "SOFTCAP": False, "SINKS": False, "PRECISION": "tf32", "WIDEN": False,
        }  # fmt: skip
        own = dict(kinds)
        if more.get("q") == "*fp16":
            own |= {"out": "*fp16", "q": "*fp16", "kv": "*fp16"}
        if "kv" in more:
            own["kv"] = str(more["kv"])
        if "TREE" in more:
            own["seen"] = "*i64"
        if "SINKS" in more:
            own["sinks"] = "*bf16"
        constants |= {name: value for name, value in more.items() if name in constants}
        yield Variant(
            f"ragged, {text}", attention.ragged, own, constants, shape.warps, stages(shape),
            ("q_token", "q_head"), least=89 if more.get("kv") == "*fp8e4nv" else 80,
        )  # fmt: skip


def _sampling() -> Iterator[Variant]:
    rows = {
        "logits": "*fp32", "chunk_top": "*fp32", "chunk_best": "*i32", "chunk_sum": "*fp32",
        "row_top": "*fp32", "row_depth": "*i32", "row_total": "*fp64", "row_token": "*i32",
        "row_state": "*i32", "heat_row": "*fp32", "seeds": "*i64", "choices": "*i64",
        "positions": "*i64",
    }  # fmt: skip
    held = {"BLOCK": CHUNK, "CHUNKS": 128}
    lists = ("edit_row", "edit_window", "edit_place", "list_begin", "list_end", "list_id",
             "list_count", "list_seen", "guess_begin", "guess_token")  # fmt: skip
    yield Variant(
        "adjust", sampling.adjust,
        {"logits": "*fp32", "list_bias": "*fp32", "repetition": "*fp32", "presence": "*fp32",
         "frequency": "*fp32"} | dict.fromkeys(lists, "*i32"),
        {"BLOCK": EDITED},
    )  # fmt: skip
    for masks in (False, True):
        yield Variant(
            f"summarise{', masks' if masks else ''}", sampling.summarise,
            rows | {"masks": "*i32", "mask_row": "*i32"}, {"BLOCK": CHUNK, "MASKS": masks},
        )  # fmt: skip
    for text, chunks in (("", held), (" behind markov", {"BLOCK": SLICE, "CHUNKS": 512})):
        yield Variant(
            f"filter_rows{text}", sampling.filter_rows,
            rows | {"rows": "*i32", "top_k": "*i32", "top_p": "*fp64", "floor_row": "*i32"},
            chunks | {"STEP": STEP, "J": PIVOTS}, registers=FILTERING,
        )  # fmt: skip
    for text, draw, chunks in (
        ("", False, held), (", draws", True, held),
        (", draws behind markov", True, {"BLOCK": SLICE, "CHUNKS": 512}),
    ):  # fmt: skip
        yield Variant(
            f"finish_rows{text}", sampling.finish_rows, rows, chunks | {"DRAW": draw, "ROLE": 0}
        )
    ints = ("windows", "window_row", "window_draws", "window_tested", "window_guess",
            "guess_token", "law_id", "kept_out", "token_out", "state_out")  # fmt: skip
    floats = dict.fromkeys(("guess_share", "law_share", "curve"), "*fp64")
    for number, (name, law) in enumerate(
        (("ratio", 64), ("block", 64), ("threshold", 1), ("synthetic", 1))
    ):
        yield Variant(
            f"decide, {name}, laws of {law}", windows.decide,
            rows | dict.fromkeys(ints, "*i32") | floats
            | {"window_base": "*i64", "single": "fp32", "accumulated": "fp32"},
            held | {"RULE": number, "LAW": law, "ACCEPT": 1, "FINAL": 2},
            warps=8, registers=REGISTERS,
        )  # fmt: skip


def _markov() -> Iterator[Variant]:
    pointers = {
        "logits": "*fp32", "table": "*bf16", "to": "*bf16", "before": "*i64", "ids": "*i64",
        "heat_row": "*fp32", "chunk_top": "*fp32", "chunk_best": "*i32", "chunk_sum": "*fp32",
        "key": "*i64",
    }  # fmt: skip
    for text, mirrors, rank, keys in (
        ("16 mirrors, rank 64", 16, 64, True),
        ("16 mirrors, rank 256", 16, 256, True),
        ("32 mirrors, rank 256", 32, 256, True),
        ("64 mirrors, rank 256", 64, 256, True),
        ("64 mirrors, rank 512", 64, 512, True),
        ("64 mirrors, rank 256, kept logits", 64, 256, False),
    ):
        yield Variant(
            f"markov, {text}", markov.markov, pointers,
            {"R": mirrors, "M": rank, "WIDE": rank, "BLOCK": SLICE, "STEP": STRIDE, "GATHER": keys,
             "PACKED": keys, "MAPPED": keys, "KEYS": keys, "PRECISION": "tf32", "WIDEN": False},
            warps=warps(mirrors),
        )  # fmt: skip


def compiled(variant: Variant, architecture: int) -> Figures:
    """Compile a variant for an architecture, and read what came of it."""
    names = variant.kernel.arg_names
    signature = {
        name: "constexpr" if name in variant.constants else variant.kinds.get(name, "i32")
        for name in names
    }
    attributes = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if signature[name].startswith("*") or name in variant.divisible
    }
    options = {"num_warps": variant.warps, "num_stages": variant.stages}
    if variant.registers is not None:
        options["maxnreg"] = variant.registers
    made = triton.compile(
        ASTSource(variant.kernel, signature, dict(variant.constants), attributes),
        target=GPUTarget("cuda", architecture, 32),
        options=options,
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(made.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        told = subprocess.run(
            [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", told))
    return Figures(
        int(found["REG"]), int(found["STACK"]) + int(found["LOCAL"]), int(made.metadata.shared)
    )


def table() -> str:
    """All of them, in Markdown."""
    lines = [
        f"triton {triton.__version__}, torch {torch.__version__.partition('+')[0]}.",
        "",
        "| kernel | warps | "
        + " | ".join(f"sm_{each}: registers, spilled, shared" for each in SHARED)
        + " |",
        "| --- | --- | " + " | ".join("---" for _ in SHARED) + " |",
    ]
    for variant in variants():
        cells = []
        for architecture in SHARED:
            if architecture < variant.least:
                cells.append("has no such numbers")
                continue
            each = compiled(variant, architecture)
            cells.append(f"{each.registers}, {each.spilled} B, {each.shared / 1024:.1f} KiB")
        lines.append(f"| {variant.name} | {variant.warps} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    text = rewritten(FILE.read_text(encoding="utf-8"), {"compiled": table()}, MAKER)
    FILE.write_text(text, encoding="utf-8")
