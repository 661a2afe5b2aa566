"""A verifier as its process builds it looks at its links behind every layer of a forward."""

from pathlib import Path

import pytest

from protocol.messages import Done, Ending, Submit
from tests.e2e.nodes import door, hear, turning
from tests.models import write_byte_llama
from verifier.__main__ import build
from verifier.config import VerifierConfig


def test_beats_are_said_in_the_middle_of_a_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_byte_llama(tmp_path)
    node = build(VerifierConfig(model=tmp_path, dtype="float32", threads=1, kv_bytes=16 << 20))
    looked: list[float] = []
    monkeypatch.setattr(node.endpoint, "beat", looked.append)
    try:
        with turning(node) as address, door(address) as front:
            submit = Submit(1, (20, 30, 40), Ending(4, ignore_eos=True))
            next(each for each in hear(front, submit) if isinstance(each, Done))
        assert looked
    finally:
        node.close()
