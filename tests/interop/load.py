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
    report = place / "report.json"
    command = [
        str(python.with_name("guidellm")), "run", "--disable-console-interactive",
        "--backend", f"kind=openai_http,target={url.removesuffix('/v1')}",
        "--profile", "kind=concurrent,streams=3",
        "--constraint", f"kind=max_requests,count={REQUESTS}",
        "--data", "kind=synthetic_text,prompt_tokens=48,output_tokens=24",
        "--tokenizer", f"kind=huggingface_auto,model={model}",
        "--output", f"kind=json,path={report}",
    ]  # fmt: skip
    apart = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=os.environ | apart, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (benchmark,) = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
    return dict(benchmark["metrics"])
