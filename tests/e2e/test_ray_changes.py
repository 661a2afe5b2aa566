"""A service on a Ray cluster changes while it serves: drafters come and go, a prefill node is lost with its node."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocol.messages import Facts
from tests.e2e import numbers, ray_nodes
from tests.e2e.prompts import prompt, wanted
from tests.e2e.ray_nodes import live, load, node_of, roles, texts, typed
from tests.e2e.service import Service, until, up
from tests.e2e.test_prefill import ask
from tests.models import write_byte_llama

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A model's folder, and the same model as `transformers` has it."""
    folder = tmp_path_factory.mktemp("model")
    return folder, write_byte_llama(folder)


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_nodes.cluster() as made:
        yield made


def configured(folder: Path, **parts: Any) -> tuple[str, ...]:
    """Flags of a service that is configured so."""
    (folder / "draftmesh.yaml").write_text(yaml.safe_dump(parts))
    return ("--verifiers", "1", "--dtype", "float32")


def test_drafters_come_go_and_move_while_requests_are_answered(
    cluster: Any,  # noqa: ANN401
    target: tuple[Path, Any],
    tmp_path: Path,
) -> None:
    flags = configured(tmp_path, ray={"wait": 20}, drafters=1)
    with up(str(target[0]), tmp_path, *flags) as service, load(service) as answers:
        assert typed(tmp_path, "scale", "--drafters", "3")[0] == 0
        until(lambda: live(service) == 3, "all three have a link")
        before = roles()
        assert before.keys() == {"verifier-0", "drafter-0", "drafter-1", "drafter-2"}
        where = {name: node_of(process, cluster) for name, process in before.items()}
        apart = [each for each in before if where[each] is not where["verifier-0"]]
        lost = next(each for each in apart if each in {"drafter-1", "drafter-2"})
        cluster.remove_node(where[lost], allow_graceful=False)
        until(lambda: not before[lost].is_running(), "one that came later is lost")
        until(lambda: lost in roles() and live(service) == 3, "it is back on another node")
        assert node_of(roles()[lost], cluster) in cluster.list_all_nodes()

        code, _ = typed(tmp_path, "scale", "--drafters", "4", "--wait", "60")
        assert code == 1, "four cores are left, and all of them are in use"
        said = "drafter-3    died: drafter-3 cannot be placed within 20 s: what the nodes have is in use"
        assert said in (tmp_path / "up.log").read_text()

        assert typed(tmp_path, "scale", "--drafters", "0")[0] == 0
        assert roles().keys() == {"verifier-0"}
        assert typed(tmp_path, "scale", "--drafters", "3")[0] == 0
        until(lambda: live(service) == 3, "what the others had was free again")
        count = len(answers)
        until(lambda: len(answers) > count + 3, "requests go on")
    assert len(texts(answers)) == 1, "no request failed, and no text changed"
    until(lambda: not roles(), "nothing is left after an orderly end")


def test_a_prefill_node_is_lost_and_comes_back_elsewhere(
    cluster: Any,  # noqa: ANN401
    target: tuple[Path, Any],
    tmp_path: Path,
) -> None:
    handover = {"least": 16, "move_seconds": 60.0, "accept_seconds": 60.0}
    flags = configured(tmp_path, drafters=1, prefill=1, verifier={"handover": handover})
    with up(str(target[0]), tmp_path, *flags) as service:
        until(lambda: len(numbers.read(service.url)) == 4, "all four have reported")
        before = roles()
        where = {name: node_of(process, cluster) for name, process in before.items()}
        assert len({id(node) for node in where.values()}) == 3, "spread over the nodes"
        _ask(service, target[1], salt=0)
        until(lambda: _taken(service) == 1, "its prompt came from the prefill node")
        cluster.remove_node(where["prefill-0"], allow_graceful=False)
        _ask(service, target[1], salt=1)
        until(lambda: not before["prefill-0"].is_running(), "it went with its node")
        _ask(service, target[1], salt=2)
        until(lambda: service.node("prefill-0").state == "ready", "it is back on another node")
        until(lambda: _verifier(service).gauges["prefill_nodes"] == {"": 1}, "and has a link")
        assert node_of(roles()["prefill-0"], cluster) in cluster.list_all_nodes()
        taken = _taken(service)
        _ask(service, target[1], salt=3)
        until(lambda: _taken(service) == taken + 1, "and is asked again")
        assert roles()["verifier-0"].pid == before["verifier-0"].pid
        assert typed(tmp_path, "down")[0] == 0
        assert service.process.wait() == 0
        until(lambda: not roles(), "nothing is left after `down`")


def _ask(service: Service, model: Any, salt: int) -> None:  # noqa: ANN401
    """With a prompt that nobody has seen, and hear what the model says."""
    asked = prompt(100, salt)
    assert asyncio.run(ask(service.url, [asked])) == [wanted(model, asked)]


def _verifier(service: Service) -> Facts:
    return numbers.read(service.url)["verifier", "verifier-0"]


def _taken(service: Service) -> int:
    return _verifier(service).counters["handovers"]["taken"]
