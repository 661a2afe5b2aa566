"""The verifier as its process builds it: grammars are compiled beside the loop, by a child that may die of them."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from protocol.endpoint import Endpoint
from protocol.messages import Done, Emit, Ending, Grammar, Refuse, Submit
from tests.e2e.nodes import door, hear, turning
from tests.models import write_byte_llama
from verifier.__main__ import build
from verifier.config import VerifierConfig

PROMPT = (20, 30, 40)
LONG = 1 << 14
"""Tokens that no machine makes while a grammar is given up."""


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one that runs in a thread."""
    folder: Path = tmp_path_factory.mktemp("model")
    write_byte_llama(folder, positions=LONG)
    node = build(VerifierConfig(model=folder, dtype="float32", threads=1, kv_bytes=16 << 20))
    with turning(node) as address:
        yield address
    children = psutil.Process().children()
    assert children, "nobody vetted anything"
    node.close()
    assert not any(child.is_running() for child in children)


@pytest.fixture
def front(verifier: str) -> Iterator[Endpoint]:
    with door(verifier) as front:
        yield front


def test_a_stream_goes_on_while_a_grammar_is_given_up(front: Endpoint) -> None:
    slow = Grammar("json_schema", '{"type": "integer", "multipleOf": 1000003}')
    before = 0
    for message in hear(
        front,
        Submit(1, PROMPT, Ending(LONG - len(PROMPT), ignore_eos=True)),
        Submit(2, PROMPT, Ending(8), grammar=slow),
    ):
        if isinstance(message, Emit):
            assert message.request == 1
            before += 1
        if isinstance(message, Refuse):
            assert (message.request, message.field) == (2, "grammar")
            assert "more than 0.5 s" in message.text
            break
        assert not isinstance(message, Done), "the stream was over before"
    assert before > 50


def test_the_next_grammar_is_followed(front: Endpoint) -> None:
    text = ""
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    grammar = Grammar("json_schema", json.dumps(schema | {"additionalProperties": False}))
    for message in hear(front, Submit(1, PROMPT, Ending(400), grammar=grammar)):
        if isinstance(message, Emit):
            text += message.text
        if isinstance(message, Done):
            assert message.reason == "stop"
            break
    assert json.loads(text)["a"] in (1, 2)
