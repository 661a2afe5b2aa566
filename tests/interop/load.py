"""`guidellm` as a user runs it: so many requests of made-up text, so many at once, and what it counted of them."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = ("guidellm==0.8.1",)
REQUESTS: Final = 12


def loaded(python: Path, url: str, model: Path, place: Path) -> Mapping[str, Any]:
    """What it says of the service at `url`."""
    place.mkdir()
    command = [
        str(python.with_name("guidellm")), "benchmark", "run",
        "--target", url.removesuffix("/v1"), "--profile", "concurrent", "--rate", "3",
        "--max-requests", str(REQUESTS), "--data", "prompt_tokens=48,output_tokens=24",
        "--processor", str(model), "--output-dir", str(place), "--outputs", "json",
    ]  # fmt: skip
    apart = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=os.environ | apart, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(next(place.glob("*.json")).read_text(encoding="utf-8"))
    (benchmark,) = report["benchmarks"]
    return dict(benchmark["metrics"])
