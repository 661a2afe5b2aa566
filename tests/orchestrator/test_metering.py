"""How much one key may ask, and TLS at the door."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import grpc
import httpx
import pytest
from pydantic import ValidationError

from orchestrator.front.config import FrontConfig
from orchestrator.front.metering import Meter, Quota
from orchestrator.front.server import address, check_tls, listen, server
from orchestrator.rpc.draftmesh_pb2_grpc import InferenceStub
from tests.orchestrator.http_app import FakeDoor, Http, error
from tests.orchestrator.rpc_app import call, generated, served


def entered(meter: Meter, *times: float) -> list[str]:
    return [meter.enter(now)[0] for now in times]


def test_a_quota_of_nothing_limits_nothing() -> None:
    assert entered(Meter(Quota()), *[0.0] * 1000) == [""] * 1000


def test_after_a_burst_requests_come_at_the_rate() -> None:
    meter = Meter(Quota(rate=2.0, burst=3))
    assert entered(meter, 10.0, 10.0, 10.0, 10.0) == ["", "", "", "rate"]
    assert meter.enter(10.25) == ("rate", 0.25)
    assert entered(meter, 10.5, 10.5, 100.0, 100.0, 100.0, 100.0) == [
        "", "rate", "", "", "", "rate",
    ]  # fmt: skip


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    meter = Meter(Quota(rate=1.0, burst=1))
    assert entered(meter, 10.0, 5.0, 6.1) == ["", "rate", ""]


def test_what_ends_makes_room_for_what_comes() -> None:
    meter = Meter(Quota(concurrent=2))
    assert entered(meter, 0.0, 0.0, 0.0) == ["", "", "concurrent"]
    meter.leave()
    assert entered(meter, 0.0, 0.0) == ["", "concurrent"]


# --- at the door ------------------------------------------------------------------------------------------------------


def asks(http: Http, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return http.request("POST", "/v1/completions", json={"prompt": "a"}, headers=headers)


def test_every_key_has_a_quota_of_its_own(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), api_key="one, two", key_rate=0.001, key_burst=2)
    codes = [asks(http, key).status_code for key in ("one", "one", "one", "two", "three")]
    assert codes == [200, 200, 429, 200, 401]
    refused = asks(http, "one")
    assert error(refused) == (429, None, "rate_limit")
    assert int(refused.headers["Retry-After"]) > 900
    assert len(http.door.queries) == 3


def test_reading_costs_nothing(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), key_rate=0.001, key_burst=1)
    assert [http.get("/v1/models").status_code for _ in range(5)] == [200] * 5


def test_without_keys_all_share_one_quota(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), key_rate=0.001, key_burst=1)
    assert [http.complete(prompt="a").status_code for _ in range(2)] == [200, 429]


def test_requests_at_once_are_counted_until_their_answers_end(tiny: Path) -> None:
    """The first is still unanswered when the second comes; when it is over, a third is answered."""
    door = FakeDoor(lambda _submit: ())
    http = Http(tiny, door, key_concurrent=1)

    async def story() -> list[int]:
        transport = httpx.ASGITransport(app=http.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:

            def ask() -> asyncio.Task[httpx.Response]:
                body = {"model": "tiny", "prompt": "a"}
                return asyncio.create_task(client.post("/v1/completions", json=body))

            first = ask()
            await door.asked.wait()
            second = await ask()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            door.asked.clear()
            third = ask()
            await door.asked.wait()
            third.cancel()
            return [second.status_code, len(door.queries)]

    assert asyncio.run(story()) == [429, 2]


@pytest.mark.parametrize(("fields", "code"), [({}, 401), ({"metrics_without_key": True}, 404)])
def test_metrics_are_open_by_configuration_only(
    tiny: Path, fields: dict[str, bool], code: int
) -> None:
    """404: this app has no page of metrics; the guard let the request pass."""
    http = Http(tiny, FakeDoor(), api_key="key", **fields)
    assert http.get("/metrics").status_code == code


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    arguments = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *arguments.split(), *files], check=True, capture_output=True)
    return certificate, key


def test_clients_are_answered_over_tls(tiny: Path, pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    http = Http(tiny, FakeDoor())

    async def story() -> tuple[int, str]:
        listening = listen("127.0.0.1", 0)
        serving = server(http.app, certificate, key)
        running = asyncio.create_task(serving.serve([listening]))
        url = address("127.0.0.1", listening, tls=True)
        trusted = ssl.create_default_context(cafile=certificate)
        async with httpx.AsyncClient(verify=trusted) as client:
            answer = await client.get(f"{url}/ready")
        with pytest.raises(httpx.HTTPError):
            async with httpx.AsyncClient() as stranger:
                await stranger.get(f"{url}/ready")
        serving.should_exit = True
        await running
        return answer.status_code, url

    code, url = asyncio.run(story())
    assert (code, url.split(":")[0]) == (200, "https")


def test_calls_are_answered_over_tls(tiny: Path, pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    http = Http(tiny, FakeDoor(), tls_certificate=certificate, tls_key=key)

    async def story() -> int:
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        async with served(http.desk) as server:
            async with grpc.aio.secure_channel(server.address, trusted) as channel:
                heard = await generated(InferenceStub(channel), call("a"))
            async with grpc.aio.insecure_channel(server.address) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await generated(InferenceStub(channel), call("a"))
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        return len(heard)

    assert asyncio.run(story()) > 1
    assert len(http.door.queries) == 1


def test_files_that_are_missing_or_no_pair_are_named(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    def given(certificate: Path, key: Path) -> FrontConfig:
        return FrontConfig(model=Path(), name="", tls_certificate=certificate, tls_key=key)

    check_tls(given(*pair))
    with pytest.raises(OSError, match=r"there is no file .*nothing"):
        check_tls(given(pair[0], tmp_path / "nothing"))
    with pytest.raises(OSError, match="are no pair"):
        check_tls(given(pair[1], pair[0]))


def test_a_certificate_without_a_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="go together"):
        FrontConfig(model=Path(), name="", tls_certificate=Path("cert.pem"))
