"""A real service with a prefill node: the text is that of the model, whatever becomes of the node."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.e2e import numbers
from tests.e2e.prompts import OUTPUT, prompt, wanted
from tests.e2e.service import Service, until, up
from tests.models import write_byte_llama

LENGTHS: Final = (31, 32, 33, 700)
"""Around pages, and more than a forward takes at once."""
LONG: Final = {"move_seconds": 60.0, "accept_seconds": 60.0}
"""A machine with other work must not look like a fault."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("target")
    return folder, write_byte_llama(folder)


@pytest.fixture(scope="module")
def service(
    target: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    handover = {"least": 16, **LONG}
    parts = {
        "verifier": {"kv_bytes": 4 << 20, "handover": handover, "scheduler": {"max_chunk": 64}}
    }
    (folder / "draftmesh.yaml").write_text(yaml.safe_dump(parts))
    flags = ("--prefill", "1", "--verifiers", "1", "--drafters", "1", "--dtype", "float32")
    with up(str(target[0]), folder, *flags) as running:
        until(lambda: len(numbers.read(running.url)) == 4, "all four have reported")
        yield running


async def ask(url: str, prompts: list[list[int]]) -> list[list[int]]:
    """All at once; the tokens of each answer."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        bodies = [
            {"prompt": each, "max_tokens": OUTPUT, "temperature": 0, "return_token_ids": True}
            for each in prompts
        ]
        answers = await asyncio.gather(
            *(client.post("/v1/completions", json=body) for body in bodies)
        )
    return [each.raise_for_status().json()["choices"][0]["token_ids"] for each in answers]


def taken(service: Service) -> int:
    return numbers.read(service.url)["verifier", "verifier-0"].counters["handovers"]["taken"]


def offered(service: Service) -> int:
    counters = numbers.read(service.url)["verifier", "verifier-0"].counters
    return sum(counters["handovers"].values())


@pytest.mark.full
def test_prompts_come_from_another_process_and_from_here_when_that_is_gone(
    service: Service, target: tuple[Path, Any]
) -> None:
    for salt in (0, 1):
        prompts = [prompt(length, salt) for length in LENGTHS]
        answers = asyncio.run(ask(service.url, prompts))
        assert answers == [wanted(target[1], each) for each in prompts]
    until(lambda: taken(service) == 2 * len(LENGTHS), "all of them were handed over")
    mine = numbers.read(service.url)["verifier", "verifier-0"]
    assert mine.counters["handed_tokens"] == {"": 2 * sum(each - 1 for each in LENGTHS)}
    until(
        lambda: (
            numbers.read(service.url)["prefill", "prefill-0"].counters["sent_bytes"]
            == mine.counters["handed_bytes"]
        ),
        "what was sent is what was written",
    )
    until(
        lambda: numbers.read(service.url)["prefill", "prefill-0"].gauges["prompts"] == {"": 0},
        "it holds nothing any more",
    )
    service.kill("prefill-0")
    prompts = [prompt(length, 2) for length in LENGTHS]
    assert asyncio.run(ask(service.url, prompts)) == [wanted(target[1], each) for each in prompts]
    until(lambda: service.node("prefill-0").state == "ready", "it is started again")
    until(
        lambda: (
            numbers.read(service.url)["verifier", "verifier-0"].gauges["prefill_nodes"] == {"": 1}
        ),
        "and found again",
    )
    before = taken(service)
    asyncio.run(ask(service.url, [prompt(200, 3)]))
    until(lambda: taken(service) == before + 1, "and is asked again")


@pytest.mark.full
def test_what_is_refused_is_refused_as_ever(service: Service) -> None:
    """Before anybody is asked."""
    before = offered(service)
    body = {"prompt": prompt(1020, 0), "max_tokens": 100}
    answer = httpx.post(f"{service.url}/v1/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert "1024" in answer.json()["error"]["message"]
    assert offered(service) == before
