"""All benches, one after the other, with short settings: `python -m tests.bench`."""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.models import resolve


def benches(folder: Path) -> Mapping[str, Sequence[str]]:
    """What follows `python -m` for each; they take turns because each wants all cores."""
    model = str(folder)
    few = ["--count", "16", "--concurrency", "1,8", "--runs", "1", "--target", model]
    return {
        "engine": ["tests.bench.engine_forward", model, "--repeats", "5"],
        "proposers": ["tests.bench.proposers"],
        "hidden": ["tests.bench.hidden"],
        "planning": ["tests.bench.planning"],
        "verification": ["tests.bench.verification"],
        "watching": ["tests.bench.watching"],
        "mesh": ["orchestrator", "bench", "mesh"],
        "copying": ["orchestrator", "bench", "--prompts", "edit", *few],
        "chat": ["orchestrator", "bench", "--compare", "plain,transformers,colocated", *few],
        "idle": ["tests.bench.idle", "--target", model, "--settle", "5", "--seconds", "15"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="smollm2-135m", help="name or folder of the model")
    options = parser.parse_args(arguments)
    failed = []
    for name, command in benches(resolve(options.target, lambda *_: None)).items():
        sys.stdout.write(f"\n== {name}\n\n")
        sys.stdout.flush()
        if subprocess.run([sys.executable, "-m", *command], check=False).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
