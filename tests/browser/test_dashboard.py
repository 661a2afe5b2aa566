"""The dashboard of a real service in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.browser.browsing import browse
from tests.e2e.service import Service, up
from tests.models import write_byte_llama

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    write_byte_llama(folder)
    return folder


@pytest.fixture(scope="module")
def service(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    flags = ("--drafters", "2", "--dtype", "float32", "--trace", "--planner", "fixed")
    with up(str(target), tmp_path_factory.mktemp("service"), *flags) as running:
        yield running


def ask(service: Service, **body: object) -> None:
    said = {"prompt": "one two three " * 5, "max_tokens": 48, "temperature": 0, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {service.key}"} if service.key else {}
    url = f"{service.url}/v1/completions"
    httpx.post(url, json=said | body, headers=headers, timeout=60).raise_for_status()


def test_an_idle_service_says_what_to_type(service: Service) -> None:
    seen = browse(
        ("open", f"{service.url}/dashboard"),
        ("see", "#state.ready"),
        ("text", "#requests"),
        ("text", "#model"),
        ("count", "#mesh .node"),
    )
    assert f"curl {service.url}/v1/completions" in seen.results[2]
    assert seen.results[3]
    assert seen.results[4] >= 2
    assert seen.errors == []
    assert {url.partition("/dashboard")[0] for url in seen.asked if url != "data:,"} == {
        service.url
    }


def test_what_was_asked_is_seen_with_what_drafts_brought(service: Service) -> None:
    for _ in range(3):
        ask(service)
    seen = browse(
        ("open", f"{service.url}/dashboard"),
        ("see", "#requests .request"),
        ("see", "#drafters .share"),
        ("see", "#positions .bar"),
        ("see", "#mesh .link.up"),
        ("text", "#facts"),
        ("count", "#mesh .node"),
        ("count", "#requests .request"),
        ("count", "#requests .request:first-child svg rect"),
        ("text", "#requests .what"),
    )
    facts, nodes, requests, blocks, what = seen.results[5:]
    assert re.search(r"Drafts accepted\s+\d+ %", facts)
    assert nodes == 4
    assert requests == 3
    assert blocks > 2
    assert what.startswith("48 tokens in ")
    assert seen.errors == []


def test_a_request_opens_into_the_trace_of_all_processes(service: Service) -> None:
    ask(service)
    seen = browse(
        ("open", f"{service.url}/dashboard"),
        ("see", "#requests button"),
        ("click", "#requests button"),
        ("see", ".whole svg.waterfall"),
        ("text", ".whole"),
        ("click", "#requests button"),
        ("count", ".whole"),
    )
    assert "verifier choice" in seen.results[4]
    assert seen.results[6] == 0
    assert seen.errors == []


def test_the_page_asks_for_the_key_and_shows_nothing_before(target: Path, tmp_path: Path) -> None:
    flags = ("--drafters", "0", "--dtype", "float32", "--api-key", "s3cret")
    with up(str(target), tmp_path, *flags) as service:
        ask(service)
        seen = browse(
            ("open", f"{service.url}/dashboard"),
            ("see", "#key:not([hidden])"),
            ("text", "#model"),
            ("fill", "#secret", "wrong"),
            ("press", "#secret", "Enter"),
            ("see", "#key:not([hidden])"),
            ("fill", "#secret", "s3cret"),
            ("press", "#secret", "Enter"),
            ("see", "#state.ready"),
            ("see", "#requests .request"),
            ("text", "#gain"),
            ("count", "#key:not([hidden])"),
        )
    assert seen.results[2] == ""
    assert seen.results[10] == "Nobody drafts: plain decoding."
    assert seen.results[11] == 0
    assert all("401" in error for error in seen.errors)
