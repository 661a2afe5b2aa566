"""Who may ask, and what the service tells of itself to those who may."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.config import Config
from orchestrator.front.config import FrontConfig
from orchestrator.front.messages import Member, Status
from orchestrator.launch.plan import children
from protocol.messages import Fingerprint, Limits
from tests.orchestrator.http_app import READY, FakeDoor, Http, error

KEY = "s3cret-ключ"


@pytest.fixture
def guarded(tiny: Path) -> Http:
    return Http(tiny, FakeDoor(), api_key=KEY)


def asked(http: Http, path: str, header: str | bytes | None) -> httpx.Response:
    value = header.encode() if isinstance(header, str) else header
    return http.request("GET", path, headers={"Authorization": value} if value else {})


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", f"Bearer {KEY}x", f"Basic {KEY}", KEY, b"Bearer \xff\xfe"],
)
def test_without_the_key_nothing_is_told(guarded: Http, header: str | bytes | None) -> None:
    for path in (
        "/v1/models",
        "/server_info",
        "/openapi.json",
        "/version",
        "/ping",
        "/metrics",
        "/x",
    ):
        response = asked(guarded, path, header)
        assert error(response) == (401, None, "invalid_api_key")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert error(guarded.complete(prompt="a"))[0] == 401
    assert guarded.door.queries == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_with_the_key_everything_is(guarded: Http, scheme: str) -> None:
    for path in ("/v1/models", "/server_info"):
        assert asked(guarded, path, f"{scheme} {KEY}").status_code == 200


def test_probes_need_no_key(guarded: Http) -> None:
    for path in ("/health", "/ready"):
        assert guarded.get(path).status_code == 200


def test_an_empty_key_is_none(tiny: Path) -> None:
    assert Http(tiny, FakeDoor(), api_key="").get("/v1/models").status_code == 200


def test_other_things_than_requests_pass(guarded: Http) -> None:
    """A server that asks whether the app knows of its life is not a client."""
    said: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup" if not said else "lifespan.shutdown"}

    async def send(message: Any) -> None:  # noqa: ANN401
        said.append(message["type"])

    asyncio.run(guarded.app({"type": "lifespan"}, receive, send))
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


# --- the key is a secret ------------------------------------------------------------------------------------------


def test_a_key_travels_in_the_environment_and_never_in_arguments_or_shown_settings() -> None:
    config = Config.model_validate({"front": {"api_key": KEY}})
    front, *others = children(config, Path("/t"), None, 2)
    assert front.environment["DRAFTMESH_FRONT__API_KEY"] == KEY
    for child in (front, *others):
        assert KEY not in child.config.model_dump_json()
    assert KEY not in json.dumps(config.shown(), ensure_ascii=False)
    assert KEY not in repr(config)


def test_a_parent_without_a_key_overrules_the_environment_that_children_inherit() -> None:
    front, *_ = children(Config(), Path("/t"), None, 2)
    assert not front.environment["DRAFTMESH_FRONT__API_KEY"]


# --- server_info --------------------------------------------------------------------------------------------------

MEMBER = Member(
    role="verifier",
    node_id="verifier-3",
    limits=Limits(64, 16, 4),
    fingerprint=Fingerprint("weights-hash", "tokenizer-hash", 261),
    choices=2,
)


def test_the_service_says_what_it_is(tiny: Path) -> None:
    drafter = Member("drafter", "drafter-0", method="ngram", choices=5)
    members = (MEMBER, drafter)
    status = Status(
        alive=True, ready=True, context=64, vocabulary=261, draft_length=4, members=members
    )
    shown = Config.model_validate({"method": "ngram", "drafters": 3}).shown()
    http = Http(tiny, FakeDoor(status=status), service=shown)
    info = http.get("/server_info").json()
    assert info["model"] == "tiny"
    assert abs(info["time"] - time.time()) < 60
    assert info["limits"] == {
        "context": 64,
        "vocabulary": 261,
        "draft_length": 4,
        "requests": 1024,
        "body_bytes": 4096,
        "choices": 128,
        "logprobs": 20,
    }
    assert info["nodes"] == [
        {"role": "front", "node_id": "front-0"},
        {
            "role": "verifier",
            "node_id": "verifier-3",
            "draining": False,
            "requests": 2,
            "method": None,
            "weights": "weights-hash",
            "tokenizer": "tokenizer-hash",
            "vocabulary": 261,
            "limits": {"context": 64, "requests": 16, "draft_length": 4},
        },
        {
            "role": "drafter",
            "node_id": "drafter-0",
            "draining": False,
            "requests": 5,
            "method": "ngram",
            "weights": None,
            "tokenizer": None,
            "vocabulary": None,
            "limits": {"context": None, "requests": None, "draft_length": 0},
        },
    ]
    assert info["speculating"] is True
    assert (info["config"]["method"], info["config"]["drafters"]) == ("ngram", 3)
    assert info["front"]["prefix_page"] == FrontConfig.model_fields["prefix_page"].default


def test_it_tells_whether_there_is_a_key_but_not_which(guarded: Http, tiny: Path) -> None:
    response = asked(guarded, "/server_info", f"Bearer {KEY}")
    assert response.json()["api_key"] is True
    assert KEY not in response.text
    assert Http(tiny, FakeDoor(status=READY)).get("/server_info").json()["api_key"] is False
