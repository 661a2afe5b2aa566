"""The dashboard over HTTP: a page that asks for nothing else, and a stream of what is new."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.front.app import make_app
from orchestrator.front.dashboard.feed import MOST_VIEWERS, Feed
from orchestrator.front.dashboard.page import HEADERS, PAGE, SCRIPT
from orchestrator.front.dashboard.visits import Visits
from orchestrator.front.desk import Desk
from orchestrator.front.messages import Query
from orchestrator.front.text import Tokenizer
from orchestrator.front.watch import Watch
from protocol.messages import Done, Ending, Sampling
from tests.orchestrator.dashboard.test_history import verifier
from tests.orchestrator.fakes import Rig, config
from tests.orchestrator.http_app import READY


class Links(HTMLParser):
    """What a page would load or lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.found += [value for name in ("src", "href", "action") if (value := said.get(name))]
        self.ids += [value] if (value := said.get("id")) else []


def test_the_page_is_one_piece_and_leads_nowhere_else() -> None:
    page = Links()
    page.feed(PAGE)
    assert set(page.found) == {"data:,", "metrics"}
    assert not re.findall(r"https?://|@import|url\(", PAGE)
    assert "/* page.css */" not in PAGE
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]


def test_the_script_names_no_place_that_the_page_does_not_have() -> None:
    page = Links()
    page.feed(PAGE)
    wanted = set(re.findall(r"\bat\(\"(\w+)\"\)|\bput\(\"(\w+)\"", SCRIPT))
    assert {one or other for one, other in wanted} <= set(page.ids)


# --- the stream ----------------------------------------------------------------------------------------------------


class Scene:
    """A feed that looks when it is told to; `times` is how far its only verifier came."""

    def __init__(self) -> None:
        self.times = 0
        self.now = 100.0
        self.visits = Visits()
        self.feed = Feed(
            "tiny",
            lambda: READY,
            lambda: [verifier(self.times)],
            self.visits,
            clock=lambda: self.now,
            day=lambda: self.now,
        )

    def look(self, times: int) -> None:
        self.times = times
        self.now += 1.0
        self.feed.look()


async def said(events: AsyncIterator[bytes]) -> Any:  # noqa: ANN401
    event = await asyncio.wait_for(anext(events), 10)
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    return json.loads(event.removeprefix(b"data: "))


def test_who_comes_hears_everything_and_then_what_is_new() -> None:
    async def go() -> None:
        scene = Scene()
        for times in range(5):
            scene.look(times)
        visit = scene.visits.begin(Query((1,), Ending(max_tokens=1), Sampling()), scene.now)
        events = scene.feed.events()
        first = await said(events)
        assert len(first["points"]) == 5
        assert [each["number"] for each in first["requests"]] == [1]
        assert (first["model"], first["state"], first["gain"]) == ("tiny", "ready", 3.0)
        assert [node["name"] for node in first["nodes"]] == ["verifier-0"]
        scene.visits.hear(visit, Done(1, 0, "stop", 1, 1), scene.now)
        waiting = asyncio.create_task(said(events))
        await asyncio.sleep(0)
        scene.look(5)
        second = await waiting
        assert [point[0] for point in second["points"]] == [106.0]
        assert second["requests"][0]["over"]
        waiting = asyncio.create_task(said(events))
        await asyncio.sleep(0)
        scene.look(6)
        assert (await waiting)["requests"] == []

    asyncio.run(go())


def test_an_open_page_does_not_hold_up_the_end() -> None:
    async def go() -> None:
        scene = Scene()
        scene.look(1)
        events = scene.feed.events()
        await said(events)
        last = asyncio.create_task(anext(events, None))
        await asyncio.sleep(0)
        scene.feed.close()
        assert await asyncio.wait_for(last, 10) is None
        await asyncio.wait_for(scene.feed.run(), 10)

    asyncio.run(go())


def test_only_so_many_pages_look_at_once() -> None:
    async def go() -> tuple[int, int]:
        watch, app = door()
        watch.feed.look()
        open_now = [watch.feed.events() for _ in range(MOST_VIEWERS)]
        for each in open_now:
            await anext(each)
        full = (await get(app, "/dashboard/events")).status_code
        for each in open_now:
            await each.aclose()
        watch.feed.close()
        return full, (await get(app, "/dashboard/events")).status_code

    assert asyncio.run(go()) == (503, 200)


# --- routes and keys -------------------------------------------------------------------------------------------------


def door(folder: Path | None = None, **fields: Any) -> tuple[Watch, Any]:
    """A front door without verifiers, and its app."""
    settings = config(**fields)
    watch = Watch(settings, Rig(**fields).node)
    desk = Desk(settings, watch.door, Tokenizer(folder) if folder else _no_tokenizer())
    return watch, watch.around(make_app(desk))


def _no_tokenizer() -> Any:  # noqa: ANN401
    return None


async def get(app: Any, path: str, key: str = "") -> httpx.Response:  # noqa: ANN401
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        return await client.get(path, headers=headers)


PATHS = ("/dashboard", "/dashboard/events", "/dashboard/trace?id=4b")


def codes(key: str = "", **fields: Any) -> list[int]:
    async def go() -> list[int]:
        watch, app = door(**fields)
        watch.feed.close()
        return [(await get(app, path, key)).status_code for path in PATHS]

    return asyncio.run(go())


def test_the_page_asks_for_the_key_that_its_data_need() -> None:
    assert codes() == [200, 200, 404]
    assert codes(api_key="s3cret") == [200, 401, 401]
    assert codes(api_key="s3cret", key="wrong") == [200, 401, 401]
    assert codes(api_key="s3cret", key="s3cret") == [200, 200, 404]
    assert codes(api_key="s3cret", metrics_without_key=True) == [200, 200, 404]


def test_a_door_without_a_dashboard_has_none() -> None:
    assert codes(dashboard=False) == [404, 404, 404]


def test_a_whole_trace_is_a_picture_where_spans_are_kept(tmp_path: Path) -> None:
    attributes = [{"key": "draftmesh.role", "value": {"stringValue": "front"}}]
    span = {
        "traceId": "4bf92f",
        "spanId": "1",
        "name": "<chat>",
        "startTimeUnixNano": "1000000000",
        "endTimeUnixNano": "3000000000",
    }
    resource = {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]}
    (tmp_path / "front-0.jsonl").write_text(json.dumps({"resourceSpans": [resource]}) + "\n")

    async def go() -> list[httpx.Response]:
        _, app = door(otlp_traces_endpoint=f"file://{tmp_path}")
        return [await get(app, f"/dashboard/trace?id={number}") for number in ("4bf9", "77")]

    found, missing = asyncio.run(go())
    assert found.headers["content-type"].startswith("image/svg+xml")
    assert "&lt;chat&gt;" in found.text
    assert missing.status_code == 404


@pytest.mark.parametrize("name", [*PATHS])
def test_only_reading_is_answered(name: str) -> None:
    async def go() -> int:
        _, app = door()
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            return (await client.post(name)).status_code

    assert asyncio.run(go()) == 405
