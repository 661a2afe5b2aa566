"""The script of `make gpu` runs to its end; what it measures here means nothing."""

import pytest

from tests.gpu.clock import Table
from tests.gpu.forwards import steps
from tests.gpu.heads import SMALL, compare_heads
from tests.gpu.kernels import REHEARSAL, fast, right
from tests.kernels.case_graphs import Repeats


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_kernels_are_compared_and_timed() -> None:
    table = Table()
    right(REHEARSAL, table)
    fast(REHEARSAL, table)
    assert not table.failed
    assert "judge with its host, 2 x 2 x 500, top-k 50, top-p 0.9" in table.text()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_steps_of_a_model_with_random_weights() -> None:
    table = Table()
    steps("tiny", "cpu", table, recorder=Repeats())
    assert not table.failed
    assert "tiny: graphs against none" in table.text()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_heads_are_compared_and_timed() -> None:
    table = Table()
    compare_heads(table, SMALL)
    assert not table.failed
    assert "head, dspark, rnn, guesses that differ" in table.text()
    assert "bias, 2 x 3 slots, vocabulary 900, rank 16" in table.text()
    assert "round of dspark, top-k 50, top-p 0.9, 2 requests" in table.text()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_services_are_compared() -> None:
    from tests.gpu.service import compare  # noqa: PLC0415  # services take seconds to import

    table = Table()
    compare(table, rehearse=True)
    assert "service, decoupled by plain, 1 at once" in table.text()
