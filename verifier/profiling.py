"""Where it is kept what steps cost on this machine with this model, be it measured or learned while serving.

Tables lie in the cache folder, one file for each machine, model, type of numbers (of pages, too), number of threads
and of ranks.
"""

import json
import platform
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from engine.attention import chosen
from engine.config import kv_numbers
from protocol.rundir import cache_folder
from verifier.config import VerifierConfig
from verifier.costs import CostTable

FORMAT: Final = 1


def hardware() -> str:
    """What this machine computes with, in words."""
    name = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return name
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else name


def place(config: VerifierConfig, weights: str, machine: str) -> Path:
    """The file of the table for these weights on this machine, whether it is there or not."""
    attention = chosen(config.attention, config.device)
    parts = (machine, weights, config.dtype, attention, config.implementation)
    ranks = (config.tensor_parallel,) if config.tensor_parallel > 1 else ()
    held = kv_numbers(config.kv_dtype, config.dtype)
    kept = (held,) if held != config.dtype else ()
    key = sha256(json.dumps((*parts, config.threads, *ranks, *kept)).encode()).hexdigest()[:24]
    return cache_folder() / "costs" / f"{key}.json"


def read(path: Path) -> CostTable | None:
    """The table there, None where there is none; a ValueError says what is wrong with a file."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"cost table {path} cannot be read: {error}") from error
    try:
        if said["format"] != FORMAT:
            raise ValueError(f"its format is {said['format']!r}, not {FORMAT}")
        tokens, seconds = tuple(map(int, said["tokens"])), tuple(map(float, said["seconds"]))
        return CostTable(tokens, seconds, float(said["row"]), int(said["padded"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"cost table {path} is broken: {error!r}") from error


def write(path: Path, table: CostTable, machine: str, how: str) -> None:
    """Replace the file at once; `how` says where the figures come from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {
        "format": FORMAT,
        "machine": machine,
        "how": how,
        "tokens": table.tokens,
        "seconds": table.seconds,
        "row": table.row,
        "padded": table.padded,
    }
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)
