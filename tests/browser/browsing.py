"""What a browser sees of a page, step by step."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.apart import environment, folder

LOOK: Final = Path(__file__).with_name("look.py")
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


class Seen(NamedTuple):
    """What each step told, what the console complained of, and every address that was asked."""

    results: list[Any]
    errors: list[str]
    asked: list[str]


def browse(*steps: tuple[Any, ...]) -> Seen:
    """Take the steps in a new window."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    assert chromium, "there is no Chromium here: apt-get install chromium"
    python = environment(folder("playwright"), "playwright>=1.50")
    done = subprocess.run(
        [python, LOOK, chromium],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Seen(**json.loads(done.stdout))
