"""Requests made up from `/openapi.json`, right ones and wrong ones: no 5xx, and every answer is as described."""

from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS

from orchestrator.front.openapi import ROUTES
from tests.orchestrator.http_app import FakeDoor, Http

NOT_OURS: Final = frozenset({"positive_data_acceptance"})
"""What a description cannot say (a context, a vocabulary, how parameters go together) is refused for good reason."""
PATHS: Final = [route.path for route in ROUTES if route.path != "/metrics"]


@pytest.fixture(scope="module")
def described(tiny: Path) -> Any:  # noqa: ANN401
    return schemathesis.openapi.from_asgi(
        "/openapi.json", Http(tiny, FakeDoor(), max_body=4 << 20).app
    )


def made_up(described: Any, path: str, mode: GenerationMode, examples: int) -> None:  # noqa: ANN401
    operation = next(
        found.ok() for found in described.get_all_operations() if found.ok().path == path
    )
    checks: list[Any] = [check for check in CHECKS.get_all() if check.__name__ not in NOT_OURS]

    @settings(
        max_examples=examples,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        case.call_and_validate(checks=checks)

    ask()


@pytest.mark.full
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.asked])
def test_many_more(described: Any, path: str, mode: GenerationMode) -> None:  # noqa: ANN401
    made_up(described, path, mode, 500)


@pytest.mark.parametrize("path", PATHS)
def test_right_requests(described: Any, path: str) -> None:  # noqa: ANN401
    made_up(described, path, GenerationMode.POSITIVE, 25)


@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.asked])
def test_wrong_requests(described: Any, path: str) -> None:  # noqa: ANN401
    made_up(described, path, GenerationMode.NEGATIVE, 25)
