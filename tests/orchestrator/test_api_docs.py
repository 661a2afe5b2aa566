"""`docs/api.md` says what the code does."""

import pytest

from orchestrator.front.schema import ChatRequest, CompletionRequest
from tests.orchestrator.api_reference import FILE, written


def test_the_tables_are_those_that_the_code_makes() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == written(text), "run python -m tests.orchestrator.api_reference"


@pytest.mark.parametrize("model", [CompletionRequest, ChatRequest])
def test_every_parameter_is_described(model: type[CompletionRequest | ChatRequest]) -> None:
    for name, field in model.model_fields.items():
        assert field.description, name
