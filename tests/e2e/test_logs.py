"""Logs as JSON: every line of every process is an object, and one request is found in all of them; so in the trace."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from orchestrator.traces.files import read
from orchestrator.traces.reading import traces
from protocol import attributes
from tests.e2e import numbers
from tests.e2e.service import Service, until, up
from tests.models import write_byte_llama

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def lines(service: Service) -> list[dict[str, Any]]:
    """What all processes wrote; a line that is no object is an error."""
    assert service.state
    files = sorted(Path(service.state.logs).glob("*.log"))
    assert {path.stem for path in files} >= {"front-0", "verifier-0", "drafter-0", "prefill-0"}
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.mark.full
def test_a_request_is_found_in_the_lines_of_all_processes(tmp_path: Path) -> None:
    write_byte_llama(tmp_path / "model")
    patient = {"least": 16, "move_seconds": 60.0, "accept_seconds": 60.0}
    verifier = {"handover": patient, "planner": {"name": "fixed"}}
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump({"verifier": verifier}))
    nodes = ("--drafters", "1", "--prefill", "1")
    flags = ("--dtype", "float32", "--trace", "--log-format", "json")
    with up(str(tmp_path / "model"), tmp_path, *nodes, *flags) as service:
        until(lambda: len(numbers.read(service.url)) == 4, "all four have reported")
        answer = httpx.post(
            f"{service.url}/v1/completions",
            json={"prompt": "one two one two one two", "max_tokens": 24, "ignore_eos": True},
            headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"},
            timeout=60,
        ).json()

        def told() -> dict[str, dict[str, Any]]:
            return {each["role"]: each for each in lines(service) if each.get("trace") == TRACE}

        roles = {"front", "verifier", "drafter", "prefill"}
        until(lambda: told().keys() == roles, "all have logged", 20.0)
        found = told()
        assert found["front"]["request"] == answer["id"]
        assert found["front"]["tokens"] == found["verifier"]["tokens"] == 24
        assert found["verifier"]["request"] == found["front"]["ticket"]
        assert found["drafter"]["number"] == found["verifier"]["number"]
        assert found["drafter"]["verifier"] == found["verifier"]["node"]
        assert found["prefill"]["number"] == found["verifier"]["number"]
        assert found["prefill"]["verifier"] == found["verifier"]["node"]
        assert found["prefill"]["reason"] == "taken"
        assert found["prefill"]["tokens"] == found["verifier"]["prompt"] - 1
        assert all(
            {"time", "level", "logger", "message", "node"} <= each.keys() for each in lines(service)
        )
        assert service.state
        kept = Path(service.state.traces)

        def traced() -> dict[str, set[str]]:
            spans: defaultdict[str, set[str]] = defaultdict(set)
            for span in traces(read(kept)).get(TRACE, ()):
                spans[span.role].add(span.name)
            return spans

        until(lambda: traced().keys() == roles, "all have kept their spans", 20.0)
        assert {attributes.GIVEN, attributes.PREFILL} <= traced()["prefill"]
        assert {attributes.HANDOVER, attributes.DETOKENISE} <= traced()["verifier"]
