"""The picture of the dashboard in README and docs, of a quiet machine: `python -m tests.browser.picture [SECONDS]`.

A real service of the default model with two drafters and spans kept here, after so much traffic (100 seconds); of one
request the waterfall over all processes is open.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Final

import httpx

from tests.browser.browsing import browse
from tests.e2e.service import ROOT, up

PLACE: Final = ROOT / "docs" / "pictures"
PROMPTS: Final = (
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):",
    "Monday Tuesday Wednesday Thursday Friday Monday Tuesday",
    "Write a short story about a mesh.",
)


def asked(url: str, seconds: float) -> Iterator[float]:
    """Two at once, for so long; what each took."""
    until = time.monotonic() + seconds

    def ask(prompt: str) -> float:
        begun = time.monotonic()
        body = {"prompt": prompt, "max_tokens": 64, "temperature": 0}
        httpx.post(f"{url}/v1/completions", json=body, timeout=300).raise_for_status()
        return time.monotonic() - begun

    prompts = cycle(PROMPTS)
    with ThreadPoolExecutor(2) as pool:
        while time.monotonic() < until:
            yield from pool.map(ask, [next(prompts), next(prompts)])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    with (
        tempfile.TemporaryDirectory() as folder,
        up("smollm2-135m", Path(folder), "--drafters", "2", "--trace") as service,
    ):
        took = list(asked(service.url, seconds))
        seen = browse(
            ("open", f"{service.url}/dashboard"),
            ("see", "#requests button"),
            ("click", "#requests button"),
            ("see", ".whole svg.waterfall"),
            ("shot", str(PLACE / "dashboard-light.png")),
            ("scheme", "dark"),
            ("shot", str(PLACE / "dashboard-dark.png")),
        )
    assert not seen.errors, seen.errors
    sys.stdout.write(f"{len(took)} requests, {sum(took) / len(took):.2f} s each\n")


if __name__ == "__main__":
    main()
