"""Statistics, pairs and rows, on runs whose figures can be worked out by hand."""

import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.bench.client import Answer
from orchestrator.bench.results import (
    KEYS,
    Label,
    Run,
    Spread,
    as_json,
    quantile,
    record,
    summaries,
)
from orchestrator.bench.table import COLUMNS, cells, table

PLAIN = Label(mode="plain")
DRAFTED = Label(mode="drafted", method="suffix", planner="fixed")
TRANSFORMERS = Label(mode="transformers")


def answer(number: int = 0, **fields: object) -> Answer:
    values = {"text": "x", "tokens": 11, "first": 0.1, "last": 1.1}
    return Answer(prompt=f"p{number}", **{**values, **fields})  # type: ignore[arg-type]


def run(
    label: Label, seconds: float, *, number: int = 0, answers: Sequence[Answer] = (), **more: object
) -> Run:
    return Run(
        label=label,
        concurrency=1,
        number=number,
        seconds=seconds,
        answers=answers or [answer()],
        **more,  # type: ignore[arg-type]
    )


def test_a_row_has_the_keys_that_were_agreed_on() -> None:
    assert KEYS == (
        "prompts", "method", "planner", "concurrency", "mode", "output_tokens_per_s", "ttft_ms", "tpot_ms_p50",
        "tpot_ms_p99", "mean_emitted", "acceptance_rate", "ratio_to_plain", "ratio_to_transformers",
        "overlap", "verifier_busy", "drafter_busy",
    )  # fmt: skip
    [row] = as_json(summaries([run(PLAIN, 2.0)], "chat"))
    assert tuple(row) == KEYS


def test_one_run() -> None:
    answers = [
        answer(0, tokens=11, first=0.1, last=1.1, rounds=5, drafted=10, accepted=6),
        answer(1, tokens=21, first=0.3, last=2.3, rounds=11, drafted=10, accepted=9),
        answer(2, tokens=1, first=0.2, last=0.2, rounds=1),
    ]
    [only] = summaries([run(DRAFTED, 3.0, answers=answers)], "edit")
    row = only.row
    assert row.output_tokens_per_s == pytest.approx(33 / 3)
    assert row.ttft_ms == pytest.approx(200)
    assert row.tpot_ms_p50 == pytest.approx(100)  # a single token has no pace
    assert row.mean_emitted == pytest.approx(33 / 17)
    assert row.acceptance_rate == pytest.approx(15 / 20)
    assert row.ratio_to_plain is None
    assert row.ratio_to_transformers is None


def test_medians_and_spread_over_runs() -> None:
    runs = [run(PLAIN, seconds, number=number) for number, seconds in enumerate((1.0, 4.0, 2.0))]
    [one] = summaries(runs, "chat")
    assert one.runs == 3
    assert one.row.output_tokens_per_s == pytest.approx(11 / 2)
    assert one.speed == Spread(11 / 4, 11)


def test_ratios_are_those_of_pairs_and_not_of_medians() -> None:
    """The machine is slower each time: by pairs drafts are always twice as fast, by medians they are not."""
    times = ((1.0, 0.5), (4.0, 2.0), (16.0, 8.0))
    runs = []
    for number, (plain, drafted) in enumerate(times):
        runs += [run(PLAIN, plain, number=number), run(DRAFTED, drafted, number=number)]
    runs.append(run(DRAFTED, 100.0, number=7))  # has no partner, so it is in no ratio
    first, second = summaries(runs, "chat")
    assert first.row.ratio_to_plain == 1.0
    assert second.row.ratio_to_plain == 2.0
    assert second.to_plain == Spread(2.0, 2.0)


def test_both_bases() -> None:
    runs = [run(PLAIN, 2.0), run(TRANSFORMERS, 4.0), run(DRAFTED, 1.0)]
    rows = {one.row.mode: one.row for one in summaries(runs, "chat")}
    assert rows["drafted"].ratio_to_plain == 2.0
    assert rows["drafted"].ratio_to_transformers == 4.0
    assert rows["plain"].ratio_to_transformers == 2.0
    assert rows["transformers"].ratio_to_plain == 0.5


def test_concurrencies_are_never_mixed() -> None:
    slow = run(PLAIN, 4.0)
    fast = Run(label=DRAFTED, concurrency=8, number=0, seconds=1.0, answers=[answer()])
    one, eight = summaries([fast, slow], "chat")
    assert (one.row.concurrency, eight.row.concurrency) == (1, 8)
    assert eight.row.ratio_to_plain is None


def test_a_system_that_counts_drafts_only_for_all_together() -> None:
    """20 tokens, 8 of them accepted drafts: 12 rounds."""
    answers = [answer(0, tokens=9), answer(1, tokens=11)]
    [one] = summaries(
        [run(Label(mode="vllm-cpu", method="ngram"), 1.0, answers=answers, drafts=(16, 8))], "chat"
    )
    assert one.row.mean_emitted == pytest.approx(20 / 12)
    assert one.row.acceptance_rate == 0.5


def test_a_system_that_says_nothing_of_drafts() -> None:
    [one] = summaries([run(TRANSFORMERS, 1.0)], "chat")
    assert one.row.mean_emitted is None
    assert one.row.acceptance_rate is None


def test_answers_that_differ_are_counted_in_the_worst_run() -> None:
    same, other = [answer(0), answer(1)], [answer(0, text="y"), answer(1, text="z")]
    runs = [
        run(PLAIN, 1.0, number=0, answers=same),
        run(DRAFTED, 1.0, number=0, answers=same),
        run(PLAIN, 1.0, number=1, answers=same),
        run(DRAFTED, 1.0, number=1, answers=other),
    ]
    assert [one.differing for one in summaries(runs, "chat")] == [0, 2]


def test_what_is_not_a_number_is_null() -> None:
    [one] = summaries([run(PLAIN, 1.0, answers=[answer(tokens=1, last=0.1)])], "chat")
    [row] = as_json([one])
    assert row["tpot_ms_p50"] is None
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_a_record_holds_the_whole_run() -> None:
    noted = json.loads(json.dumps(record(run(DRAFTED, 2.0, answers=[answer(3)], others=0.25))))
    assert noted["label"] == {
        "mode": "drafted", "method": "suffix", "planner": "fixed", "overlap": None,
    }  # fmt: skip
    assert noted["output_tokens_per_s"] == 5.5
    assert noted["others"] == 0.25
    assert [each["prompt"] for each in noted["answers"]] == ["p3"]
    assert noted["answers"][0]["text"] == "x"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_a_quantile_is_the_least_that_so_many_do_not_exceed(
    values: list[float], share: float
) -> None:
    found = quantile(values, share)
    needed = math.ceil(share * len(values))
    assert sum(value <= found for value in values) >= needed
    assert sum(value < found for value in values) < needed


def test_the_quantile_of_nothing_is_no_number() -> None:
    assert math.isnan(quantile([], 0.5))


def test_the_table_shows_no_empty_columns() -> None:
    [one] = summaries([run(TRANSFORMERS, 2.0)], "chat")
    shown = [str(column.header) for column in table([one]).columns]
    assert "accepted" not in shown
    assert "times\nplain" not in shown
    assert "times\ntransformers" in shown


def test_a_line_of_the_table() -> None:
    pairs = [
        run(PLAIN, 2.0),
        run(PLAIN, 1.0, number=1),
        run(DRAFTED, 1.0),
        run(DRAFTED, 1.0, number=1),
    ]
    line = dict(zip(COLUMNS, cells(summaries(pairs, "chat")[1]), strict=True))
    assert line["system"] == "drafted suffix fixed"
    assert line["tokens/s"] == "11.0 (11.0 - 11.0)"
    assert line["times\nplain"] == "1.50 (1.00 - 2.00)"
    assert line["answers\nunlike plain"] == "0"
