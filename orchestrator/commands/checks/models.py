"""Target and draft model: whether they are here, fit into memory, and mean the same tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from orchestrator.commands.checks.finding import Finding, bad, doubt, good
from orchestrator.config import Config
from orchestrator.launch.threads import LIGHT
from orchestrator.models import MODELS, find
from protocol.fingerprint import tokenizer_fingerprint

GIB: Final = 1 << 30


def findings(config: Config) -> Iterator[Finding]:
    """Target first; nothing is fetched."""
    target = here(config.target)
    yield present("target", config.target, target)
    draft = here(config.draft) if config.draft else None
    if config.draft:
        yield present("draft", config.draft, draft)
    if target and draft and config.method not in LIGHT:
        yield tokenizers(config, target, draft)
    copies = config.verifiers * (_bytes(target) if target else 0)
    if config.method not in LIGHT and config.drafters and (own := draft or target):
        copies += config.drafters * _bytes(own)
    if copies:
        yield fits(copies, psutil.virtual_memory().available)


def here(name: str) -> Path | None:
    """The folder of a model that can be had without a network."""
    if model := MODELS.get(name):
        return find(model)
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else None


def present(what: str, name: str, folder: Path | None) -> Finding:
    if folder is not None:
        if not (folder / "config.json").is_file():
            return bad(what, f"{folder} has no config.json", "name the folder of a model")
        return good(what, f"{name} lies in {folder}")
    if name in MODELS:
        hint = f"orchestrator models pull {name}, while there is a network"
        return doubt(what, f"{name} is not here yet", hint)
    hint = "if it is the id of one on the hub it is fetched at the start; else mend the path"
    return doubt(what, f"{name} is no folder and no named model", hint)


def tokenizers(config: Config, target: Path, draft: Path) -> Finding:
    """Guesses are token ids: they must mean the same to both."""
    try:
        same = tokenizer_fingerprint(target) == tokenizer_fingerprint(draft)
    except FileNotFoundError as error:
        return doubt("tokenizer", str(error), "a draft head needs none; a draft model does")
    if same:
        return good("tokenizer", "target and draft model have the same one")
    if config.drafter.standalone.use_heterogeneous_vocab:
        return good("tokenizer", "they differ; what both vocabularies share is used")
    hint = "choose a draft model of the same family, or drafter.standalone.use_heterogeneous_vocab"
    return bad("tokenizer", "target and draft model have different ones", hint)


def fits(wanted: int, available: int) -> Finding:
    """Weights of all processes beside what is free now."""
    text = f"{wanted / GIB:.1f} GiB on disk, for all processes, {available / GIB:.1f} free"
    if wanted < available:
        return good("weights", text)
    return doubt("weights", text, "start fewer processes, or a smaller model")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
