"""The tour with the 1.x `openai` client, in a virtual environment of its own: `python -m tests.interop.openai_1x`.

The environment is made once, from the package index, in a folder: the first argument, else `OPENAI_1X_FOLDER` of the
environment, else one beside the models. The service is the front door of this process, over a verifier that answers by
a script; with a URL as the second argument it is whatever answers there.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.interop.apart import environment, folder
from tests.models import write_byte_llama
from tests.orchestrator.live import LiveFront

CLIENT: Final = "openai>=1.40,<2"
FOLDER: Final = Path(os.environ.get("OPENAI_1X_FOLDER", folder("openai-1")))
TOUR: Final = Path(__file__).with_name("openai_tour.py")


def main() -> None:
    """Make the environment, start a front door, go on the tour."""
    python = environment(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER, CLIENT)
    if len(sys.argv) > 2:
        subprocess.run([python, TOUR, sys.argv[2]], check=True)
        return
    with tempfile.TemporaryDirectory() as model:
        write_byte_llama(Path(model))
        with LiveFront(Path(model)) as front:
            subprocess.run([python, TOUR, front.url], check=True)


if __name__ == "__main__":
    main()
