"""A verifier over two ranks, as processes that speak gloo: its text, its losses, its end."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from orchestrator.commands.status import numbers as told
from tests import architectures
from tests.deploy.tools import beside
from tests.e2e import numbers
from tests.e2e.prompts import prompt, wanted
from tests.e2e.ray_nodes import typed
from tests.e2e.service import Service, until, up
from tests.e2e.test_prefill import ask
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
Make = Callable[[str], tuple[Path, Any]]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A model's folder, and the same model as `transformers` has it."""

    @cache
    def written(name: str) -> tuple[Path, Any]:
        folder = tmp_path_factory.mktemp(name)
        if name == "lean":
            return folder, write_byte_llama(folder)
        return folder, architectures.write(name, folder)

    return written


@pytest.fixture
def _accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `transformers` wants where it deals out a model; everywhere else it would only be imported in vain."""
    python = beside("accelerate==1.15.0")
    monkeypatch.setenv("PYTHONPATH", str(next(python.parents[1].glob("lib/*/site-packages"))))


def settings(folder: Path, **verifier: Any) -> tuple[str, ...]:
    verifier |= {"planner": {"name": "fixed"}}  # drafts hardly pay beside so small a target
    (folder / "draftmesh.yaml").write_text(
        yaml.safe_dump({"verifier": {"kv_bytes": 4 << 20, **verifier}})
    )
    return ("--tensor-parallel", "2", "--drafters", "1", "--dtype", "float32")


def followers(service: Service) -> list[psutil.Process]:
    verifier = psutil.Process(service.node("verifier-0").pid)
    return [each for each in verifier.children() if "verifier.follower" in each.cmdline()]


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.usefixtures("_accelerate")
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("lean", "suffix"),
        ("lean", "standalone"),
        ("MixtralForCausalLM", "suffix"),
        ("Gemma2ForCausalLM", "standalone"),
    ],
)
def test_two_ranks_answer_as_transformers(
    targets: Make, tmp_path: Path, name: str, method: str
) -> None:
    folder, model = targets(name)
    flags = settings(tmp_path, scheduler={"max_chunk": 24})
    prompts = [prompt(length, salt) for salt, length in enumerate((1, 17, 60))]
    prompts += [prompts[2] + prompt(9, 7)]  # what it begins with is computed already
    with up(str(folder), tmp_path, *flags, "--method", method) as service:
        answers = asyncio.run(ask(service.url, prompts[:3]))
        answers += asyncio.run(ask(service.url, prompts[3:]))
        answers += asyncio.run(ask(service.url, prompts[1:2]))
        assert answers == [wanted(model, each) for each in (*prompts, prompts[1])]
        until(lambda: _counted(service, "drafted_by") > 0, "drafts were verified")
        until(lambda: _counted(service, "prefix_hits") > 0, "pages were shared")


def test_a_lost_rank_ends_the_verifier_which_comes_back_whole(
    targets: Make, tmp_path: Path
) -> None:
    folder, model = targets("lean")
    with up(str(folder), tmp_path, *settings(tmp_path)) as service:
        until(lambda: _device(service) == "2 x cpu", "it says that it has two ranks")
        first = service.node("verifier-0").pid
        (follower,) = followers(service)
        follower.kill()
        until(lambda: service.node("verifier-0").pid not in {0, first}, "it is started again")
        assert "rank 1 was killed by signal 9" in (tmp_path / "up.log").read_text()
        asked = prompt(20, 1)
        until(lambda: service.node("verifier-0").state == "ready", "with a new rank")
        until(service.ready, "the door knows it")
        assert asyncio.run(ask(service.url, [asked])) == [wanted(model, asked)]
        (other,) = followers(service)
        os.kill(service.node("verifier-0").pid, signal.SIGKILL)
        until(lambda: gone(other), "no rank is left without rank 0")


def test_an_orderly_end_leaves_no_rank(targets: Make, tmp_path: Path) -> None:
    with up(str(targets("lean")[0]), tmp_path, *settings(tmp_path)) as service:
        (follower,) = followers(service)
        service.interrupt()
        assert service.process.wait(60) == 0
        assert gone(follower)


def test_heads_that_cannot_be_dealt_out_end_the_start(targets: Make, tmp_path: Path) -> None:
    code, said = _refused(tmp_path, targets("lean")[0], "3")
    assert code == 1
    assert "LlamaForCausalLM cannot span 3 ranks: its 4 query heads are no multiple of 3" in said


def test_a_model_without_a_plan_is_refused(targets: Make, tmp_path: Path) -> None:
    code, said = _refused(tmp_path, targets("GPT2LMHeadModel")[0], "2")
    assert code == 1
    assert "GPT2LMHeadModel cannot span 2 ranks: transformers has no plan that deals out" in said


def _refused(folder: Path, model: Path, ranks: str) -> tuple[int, str]:
    words = ("--port", "0", "--dtype", "float32", "--tensor-parallel", ranks)
    code, said = typed(folder, "up", "--target", str(model), *words)
    return code, said.replace("\n", " ")


def _device(service: Service) -> str:
    said = told(httpx.get(f"{service.url}/metrics").text)
    return said["verifier-0"].device if "verifier-0" in said else ""


def _counted(service: Service, name: str) -> float:
    facts = numbers.read(service.url)["verifier", "verifier-0"]
    return sum(facts.counters.get(name, {}).values())  # absent as long as no label has a value
