"""`lm-eval` over `/v1/completions`, with a task of our own: what it finds with drafts, it must find without."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent / "task"
PACKAGES: Final = ("lm-eval[api]", "transformers>=5.20,<6")
"""The tokenizer comes by `transformers`; no torch is needed for it."""

CHOOSE: Final[Mapping[str, Any]] = {
    "task": "draftmesh_choose",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
"""Log-likelihoods of answers: prompts that are scored."""
CONTINUE: Final[Mapping[str, Any]] = {
    "task": "draftmesh_continue",
    "output_type": "generate_until",
    "doc_to_text": "{{begin}}",
    "doc_to_target": "{{rest}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 32, "do_sample": False},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
"""Texts that are written: those where drafts are made."""


def tasks(place: Path) -> None:
    """Both, as `lm-eval` reads them."""
    for task in (CHOOSE, CONTINUE):
        data = HERE / f"{task['task'].removeprefix('draftmesh_')}.jsonl"
        files = {"test": str(data)}
        whole = {**task, "dataset_path": "json", "dataset_kwargs": {"data_files": files}}
        whole |= {"test_split": "test", "metadata": {"version": 1}}
        (place / f"{task['task']}.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")


def scored(python: Path, url: str, model: Path, place: Path) -> Mapping[str, Any]:
    """Scores and the answers behind them, of the service at `url`."""
    place.mkdir()
    tasks(place)
    about = (
        f"model=smollm2-135m,base_url={url}/completions,num_concurrent=4,max_retries=1,"
        f"tokenizer={model},tokenizer_backend=huggingface"
    )
    command = [
        str(python), "-m", "lm_eval", "run", "--model", "local-completions", "--model_args", about,
        "--tasks", "draftmesh_choose,draftmesh_continue", "--include_path", str(place),
        "--output_path", str(place / "out"), "--log_samples",
    ]  # fmt: skip
    apart = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(place / "cache")}
    done = subprocess.run(
        command, env=os.environ | apart, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    (result,) = (place / "out").rglob("results_*.json")
    found = json.loads(result.read_text(encoding="utf-8"))["results"]
    return {
        "choose": found["draftmesh_choose"]["acc,none"],
        "continue": found["draftmesh_continue"]["exact_match,none"],
        "answers": _answers(place / "out"),
    }


def _answers(out: Path) -> list[Any]:
    """What was answered to every question of both tasks."""
    found = []
    for path in sorted(out.rglob("samples_*.jsonl")):
        samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found += [each["filtered_resps"] for each in sorted(samples, key=lambda one: one["doc_id"])]
    return found
