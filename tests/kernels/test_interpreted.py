"""Kernels under Triton's interpreter, which has to be chosen before they are read: in processes of their own.

What runs there are the files `case_*.py` beside this one, and tests that are the same for all backends.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]


def interpreted(marks: str, *files: str, **environment: str) -> None:
    """Run tests in a process whose kernels are interpreted; at least one of them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marks, *files],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


CASES: Final = tuple(str(path) for path in sorted(HERE.glob("case_*.py")))


def test_cases() -> None:
    assert len(CASES) > 1
    interpreted(
        "not full", *CASES, "tests/contracts/test_attention.py", DRAFTMESH_ATTENTION="triton"
    )


@pytest.mark.full
def test_long_cases() -> None:
    interpreted("full", *CASES)


@pytest.mark.full
@pytest.mark.parametrize("file", ["tests/engine/test_models.py", "tests/engine/test_hosted.py"])
def test_models_are_what_transformers_computes(file: str) -> None:
    interpreted("not gpu", file, DRAFTMESH_ATTENTION="triton")
