"""A service that nobody uses hardly uses the processors, not even when somebody it listens or speaks to is gone."""

import os
import signal
import socket
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.bench.idle import TARGET, measure
from tests.e2e.service import up
from tests.models import write_byte_llama

SECONDS: Final = 20.0


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("gone", ["nobody", "a drafter", "the collector"])
def test_nobody_turns_for_nothing(tmp_path: Path, gone: str) -> None:
    """Processor time, not time: it does not hang on what else the machine does."""
    (tmp_path / "model").mkdir()
    write_byte_llama(tmp_path / "model")
    flags = ["--drafters", "2", "--dtype", "float32"]
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        if gone == "the collector":  # it was there when the service began
            port = deaf.getsockname()[1]
            flags += ["--otlp-traces-endpoint", f"http://127.0.0.1:{port}"]
        with up(str(tmp_path / "model"), tmp_path, *flags) as service:
            deaf.close()
            body = {"prompt": "one two one two", "max_tokens": 8}
            httpx.post(f"{service.url}/v1/completions", json=body, timeout=60).raise_for_status()
            if gone == "a drafter":
                os.kill(service.pids["drafter-0"], signal.SIGSTOP)
            measure(service, 5.0)  # links end, reports come in
            used = measure(service, SECONDS)
            if gone == "a drafter":
                os.kill(service.pids["drafter-0"], signal.SIGCONT)
    assert max(used.values()) <= TARGET, used
