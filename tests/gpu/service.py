"""Whole services on one GPU: plain, colocated and decoupled, with random weights and a curve of drafts."""

import tempfile
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from safetensors.torch import save_file

from engine.models.config import ModelConfig
from engine.models.llama_shape import LlamaShape
from orchestrator.bench.client import Asking
from orchestrator.bench.prompts import Prompt
from orchestrator.bench.results import Run, summaries
from orchestrator.bench.session import Plan, measure
from orchestrator.bench.systems import Wanted, systems
from orchestrator.config import Config
from tests.gpu.clock import Table
from tests.gpu.forwards import CLASSES, DRAFTS, RandomWeights
from tests.models import write_tokenizer

CONCURRENCIES: Final = (1, 8, 32, 64)
LENGTH: Final = 3.6
"""Tokens a round in the mean, of the curve by which drafts are kept."""


def write(folder: Path, kind: str, device: str) -> Path:
    """A checkpoint of such a shape with random weights, made where that is fast."""
    source = transformers.LlamaConfig(
        **CLASSES[kind], max_position_embeddings=8192, tie_word_embeddings=True,
        bos_token_id=1, eos_token_id=2, architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    place = folder / kind
    place.mkdir()
    source.save_pretrained(place)
    shape = LlamaShape.of(ModelConfig.translate(source, [2]))
    weights = RandomWeights(shape, torch.bfloat16, device)
    tensors = {name: weights.read(name).cpu() for name in shape.expected()}
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(place)
    return place


def compare(table: Table, *, rehearse: bool) -> None:
    """A line for each system and concurrency: tokens a second, as often as plain and colocated."""
    shared = Path("/dev/shm")  # noqa: S108  # memory: 18 GB are written once and read twice
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        device, kinds = ("cpu", ("tiny", "tiny")) if rehearse else ("cuda", ("8B", "1B"))
        target = write(Path(name), kinds[0], device)
        draft = target if kinds[0] == kinds[1] else write(Path(name), kinds[1], device)
        torch.cuda.empty_cache()
        asked = (1,) if rehearse else CONCURRENCIES
        config = Config.model_validate(_settings(target, draft, rehearse=rehearse))
        wanted = Wanted(config=config, methods=["standalone"], planners=["fixed"])
        plan = Plan(
            prompts=[_prompt(number) for number in range(max(asked) if not rehearse else 2)],
            asking=Asking(max_tokens=12 if rehearse else 64, temperature=0.7, ignore_eos=True),
            concurrencies=asked,
            runs=1,
        )
        runs = measure(plan, systems(("plain", "colocated", "drafted"), wanted), lambda _: None)
    _tell(table, runs)


def _settings(target: Path, draft: Path, *, rehearse: bool) -> dict[str, Any]:
    gpus = {"verifier": [0], "drafter": [0], "verifier_share": 0.6, "drafter_share": 0.3}
    return {
        "target": str(target),
        "draft": str(draft),
        "drafters": 1,
        "method": "standalone",
        "draft_length": DRAFTS,
        "dtype": "float32" if rehearse else "bfloat16",
        "gpus": {} if rehearse else gpus,
        "verifier": {
            "rule": "synthetic",
            "synthetic": {"length": LENGTH},
            "kv_bytes": (1 << 22) if rehearse else (24 << 30),
            "context": 512 if rehearse else 2048,
        },
        "drafter": {"kv_bytes": (1 << 22) if rehearse else (8 << 30)},
    }


def _prompt(number: int) -> Prompt:
    text = f"Question {number}: what is new? " * 2
    return Prompt(id=f"random-{number}", messages=[{"role": "user", "content": text}])


def _tell(table: Table, runs: list[Run]) -> None:
    speeds = {(run.label.mode, run.concurrency): run.speed for run in runs}
    for run in runs:
        at = run.concurrency
        work = run.work
        parts = f", verify {work.verifying:.2f} s, draft {work.drafting:.2f} s" if work else ""
        table.add(
            f"service, {run.label.mode}, {at} at once",
            f"{run.speed:.0f} tokens/s of {run.seconds:.2f} s{parts}",
        )
    for at in sorted({run.concurrency for run in runs}):
        table.add(
            f"service, decoupled by plain, {at} at once",
            f"{speeds['drafted', at] / speeds['plain', at]:.2f}x, "
            f"{speeds['drafted', at] / speeds['colocated', at]:.2f}x colocated",
            "1x plain at 64, 0.9x colocated",
        )
    assert summaries(runs, "random")
