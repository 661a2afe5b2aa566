"""All benches, one after the other, with short settings: `python -m tests.bench`."""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.models import resolve


def benches(folder: Path) -> Mapping[str, Sequence[str]]:
    """Arguments of each; they take turns because each wants all cores."""
    model = str(folder)
    return {
        "engine_forward": [model, "--repeats", "5"],
        "proposers": [],
        "mesh_round_trip": [],
        "copying": ["--target", model, "--runs", "1", "--prompts", "16"],
        "idle": ["--target", model, "--settle", "5", "--seconds", "15"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="smollm2-135m", help="name or folder of the model")
    options = parser.parse_args(arguments)
    failed = []
    for name, settings in benches(resolve(options.target, lambda *_: None)).items():
        sys.stdout.write(f"\n== {name}\n\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", f"tests.bench.{name}", *settings]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
