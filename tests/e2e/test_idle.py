"""A service that nobody uses hardly uses the processors, not even when somebody it listens to is gone."""

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.bench.idle import TARGET, measure
from tests.e2e.service import up
from tests.models import write_byte_llama

SECONDS: Final = 20.0


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("frozen", [False, True], ids=["all are well", "a drafter is frozen"])
def test_nobody_turns_for_nothing(tmp_path: Path, *, frozen: bool) -> None:
    """Processor time, not time: it does not hang on what else the machine does."""
    (tmp_path / "model").mkdir()
    write_byte_llama(tmp_path / "model")
    with up(str(tmp_path / "model"), tmp_path, "--drafters", "2", "--dtype", "float32") as service:
        if frozen:
            os.kill(service.pids["drafter-0"], signal.SIGSTOP)
        measure(service, 5.0)  # links end, reports come in
        used = measure(service, SECONDS)
        if frozen:
            os.kill(service.pids["drafter-0"], signal.SIGCONT)
    assert max(used.values()) <= TARGET, used
