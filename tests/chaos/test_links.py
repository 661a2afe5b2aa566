"""A wire that delays, jitters, narrows, loses and hangs up costs speed for a bounded while, and nothing else."""

import subprocess
import sys

import pytest

from tests.chaos.links import run
from tests.chaos.namespaces import possible


@pytest.mark.full
@pytest.mark.timeout(600)
def test_whatever_the_wire_does_answers_stay_and_drafts_come_back() -> None:
    assert run(lambda _line: None) == []


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_partition_between_two_hosts() -> None:
    if reason := possible():
        pytest.skip(reason)
    command = ["unshare", "-rn", sys.executable, "-m", "tests.chaos.namespaces"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert tried.returncode == 0, tried.stdout + tried.stderr[-2000:]
