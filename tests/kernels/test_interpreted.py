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
QUICK: Final = (
    "case_attention.py::test_a_tree_sees_its_ancestors",
    "case_kv.py::test_what_is_stored_is_rounded_to_the_nearest_ties_to_even[dtype0-fp8]",
    "case_judge.py::test_the_same_verdicts[ratio]",
    "case_judge.py::test_draws_are_keyed_as_on_the_cpu",
    "case_judge.py::test_a_guess_behind_the_drafts_and_beyond_the_curve_was_never_made",
    "case_judge.py::test_where_no_token_may_stand_a_choice_ends_with_the_reason",
    "case_markov.py::test_of_equals_the_lowest_wins_within_chunks_and_between_them",
    "case_markov.py::test_every_slot_follows_from_the_token_before_it[torch.bfloat16-(3, 2, 50, 50, 8)]",
    "case_heads.py::test_the_same_guesses[dspark, small vocabulary-greedy]",
)
"""What seconds suffice for: each kernel once, but for the splits of long contexts."""


@pytest.mark.timeout(900)
def test_quick_cases() -> None:
    interpreted("not full", *(str(HERE / each) for each in QUICK))


def test_heads_make_the_host_wait_once_a_round() -> None:
    """In a process of its own, for it registers a device."""
    interpreted("not full", str(HERE / "case_waits.py"))


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: Path(case).stem)
def test_all_cases(case: str) -> None:
    interpreted("full or not full", case)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_contract_of_attention() -> None:
    interpreted("not gpu", "tests/contracts/test_attention.py", DRAFTMESH_ATTENTION="triton")


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", ["tests/engine/test_models.py", "tests/engine/test_hosted.py"])
def test_models_are_what_transformers_computes(file: str) -> None:
    interpreted("not gpu", file, DRAFTMESH_ATTENTION="triton")
