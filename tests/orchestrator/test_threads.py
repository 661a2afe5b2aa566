"""Cores are dealt out so that no two spinning teams share one."""

import pytest

from orchestrator.launch.threads import in_turn, shares, usable_cores


def test_a_target_whose_drafters_do_not_compute_has_all_cores() -> None:
    dealt = shares(2, verifiers=1, drafters=2, method="suffix")
    assert {role: share.threads for role, share in dealt.items()} == {
        "verifier": 2,
        "drafter": 1,
        "front": 1,
    }
    assert "OMP_WAIT_POLICY" not in dealt["verifier"].environment
    assert dealt["verifier"].environment["OMP_NUM_THREADS"] == "2"


def test_where_cores_are_few_a_draft_model_takes_turns_with_its_target() -> None:
    assert in_turn(2, verifiers=1, drafters=2, method="eagle3")
    dealt = shares(2, verifiers=1, drafters=1, method="eagle3", turns=True)
    assert (dealt["verifier"].threads, dealt["drafter"].threads) == (2, 1)
    assert "OMP_WAIT_POLICY" not in dealt["verifier"].environment  # nobody computes beside it


@pytest.mark.parametrize(
    ("cores", "drafters", "method"), [(2, 2, "suffix"), (2, 0, "eagle3"), (8, 1, "eagle3")]
)
def test_drafters_run_ahead_where_they_keep_nobody_from_computing(
    cores: int, drafters: int, method: str
) -> None:
    assert not in_turn(cores, 1, drafters, method)


def test_models_side_by_side_get_a_core_each() -> None:
    dealt = shares(2, verifiers=1, drafters=1, method="standalone")
    assert (dealt["verifier"].threads, dealt["drafter"].threads) == (1, 1)
    assert "GOMP_SPINCOUNT" not in dealt["verifier"].environment


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8, 64])
@pytest.mark.parametrize("verifiers", [1, 2, 4])
@pytest.mark.parametrize("drafters", [0, 1, 3])
def test_computing_threads_never_outnumber_cores_that_suffice(
    cores: int, verifiers: int, drafters: int
) -> None:
    dealt = shares(cores, verifiers, drafters, "standalone")
    threads = dealt["verifier"].threads * verifiers + dealt["drafter"].threads * drafters
    assert threads <= max(cores, verifiers + drafters)


def test_a_user_who_wants_more_gets_it_but_nobody_spins() -> None:
    dealt = shares(2, 1, 1, "standalone", wanted={"verifier": 2})
    assert dealt["verifier"].threads == 2
    assert dealt["verifier"].environment["OMP_WAIT_POLICY"] == "PASSIVE"
    assert dealt["verifier"].environment["GOMP_SPINCOUNT"] == "0"


def test_this_machine_has_cores() -> None:
    assert usable_cores() >= 1
