"""Cost tables: steps where execution is padded, lines elsewhere, and what is learned from steps that were taken."""

import pytest

from verifier.costs import Costs, CostTable, rising, table_of


def test_padded_sizes_cost_what_the_bucket_costs_and_larger_ones_lie_on_a_line() -> None:
    table = CostTable((2, 4, 8, 16), (0.01, 0.02, 0.03, 0.07), padded=8)
    assert table.costs(0, 1, 8).tolist() == [0.01, 0.01, 0.02, 0.02, 0.03, 0.03, 0.03, 0.03]
    assert table.cost(0, 12) == pytest.approx(0.05)


def test_nothing_padded_is_interpolated_and_goes_on_beyond_the_last_size() -> None:
    table = CostTable((1, 5, 9), (0.01, 0.03, 0.05), row=0.001)
    assert table.cost(0, 3) == pytest.approx(0.02)
    assert table.cost(4, 3) == pytest.approx(0.024)
    assert table.cost(0, 13) == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("tokens", "seconds", "says"),
    [
        ((), (), "one at least"),
        ((1, 1), (0.1, 0.2), "rise"),
        ((1, 2), (0.2, 0.1), "less time"),
        ((1,), (0.0,), "takes time"),
    ],
)
def test_what_is_no_table_is_refused(
    tokens: tuple[int, ...], seconds: tuple[float, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        CostTable(tokens, seconds)


def test_falling_neighbours_are_pooled_by_weight() -> None:
    assert rising([1.0, 3.0, 2.0, 4.0], [1, 1, 1, 1]) == [1.0, 2.5, 2.5, 4.0]
    assert rising([4.0, 1.0], [3, 1]) == [3.25, 3.25]


def test_a_table_is_of_medians() -> None:
    samples = [(1, 0.1), (1, 9.0), (1, 0.1), (2, 0.3), (2, 0.2), (2, 0.25)]
    assert table_of(samples) == CostTable((1, 2), (0.1, 0.25))


def test_steps_teach_a_table_and_an_outlier_does_not() -> None:
    costs = Costs()
    assert Costs().table is None
    for step in range(200):
        for tokens in (1, 4, 16):
            costs.learn(tokens, 5.0 if step % 20 == 7 else 0.01 + 0.001 * tokens)
    assert costs.table is not None
    for tokens in (1, 4, 10, 16):
        assert costs.table.cost(1, tokens) == pytest.approx(0.01 + 0.001 * tokens, rel=0.05)


def test_what_was_measured_before_shapes_what_no_step_has_shown() -> None:
    costs = Costs(CostTable((1, 8, 64), (0.01, 0.02, 0.10)))
    for _ in range(20):
        costs.learn(1, 0.02)  # everything takes twice as long today
    assert costs.table is not None
    assert costs.table.cost(1, 64) == pytest.approx(0.20)


def test_a_machine_that_becomes_slow_is_noticed() -> None:
    costs = Costs(CostTable((1, 8), (0.01, 0.02)))
    for seconds in (0.01, 0.05):
        for _ in range(40):
            costs.learn(8, seconds)
    assert costs.table is not None
    assert costs.table.cost(1, 8) == pytest.approx(0.05)


def test_where_steps_are_padded_the_table_steps_at_the_buckets_and_nowhere_else() -> None:
    costs = Costs(CostTable((1, 8, 16, 24), (0.01, 0.02, 0.04, 0.05), padded=24))
    costs.buckets = (1, 8, 16, 24)
    for tokens in (2, 5, 8, 9, 16):
        for _ in range(20):
            costs.learn(tokens, 0.02 if tokens <= 8 else 0.04)
    table = costs.table
    assert table is not None
    assert table.tokens == (1, 8, 16, 24)
    assert table.padded == 24
    steps = table.costs(0, 1, 24)
    assert [place + 1 for place in range(1, 24) if steps[place] != steps[place - 1]] == [2, 9, 17]
