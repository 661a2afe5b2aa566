"""The line for logs, in the form that tools for vLLM look for."""

import re
from typing import Final

import pytest

from protocol.messages import Facts, Limits
from tests.verifier.test_core import DRAFTER, Rig
from verifier.logline import EVERY, Summaries, summary

VLLM: Final = re.compile(
    r"SpecDecoding metrics: "
    r"Mean acceptance length: (\d+\.\d\d), "
    r"Accepted throughput: (\d+\.\d\d) tokens/s, "
    r"Drafted throughput: (\d+\.\d\d) tokens/s, "
    r"Accepted: (\d+) tokens, "
    r"Drafted: (\d+) tokens, "
    r"Per-position acceptance rate: ((?:\d\.\d{3}(?:, )?)+), "
    r"Avg Draft acceptance rate: (\d+\.\d)%"
)


def drafted() -> Rig:
    """Two rounds with drafts: three of three accepted, one of two."""
    rig = Rig(Limits())
    rig.submit(max_tokens=30)
    rig.step()
    rig.says(DRAFTER)
    rig.tail(1, 1, 5, 6, 7)
    rig.step()
    rig.tail(5, 5, 9, 80)
    rig.step()
    return rig


def test_what_the_line_says() -> None:
    line = summary(Rig().core.facts(), drafted().core.facts(), 2.0)
    match = VLLM.fullmatch(line)
    assert match is not None, line
    assert match.groups() == (
        "3.00", "2.00", "2.50", "4", "5", "1.000, 0.500, 0.500", "80.0",
    )  # fmt: skip


def test_only_what_came_since_the_last_line_counts() -> None:
    rig = drafted()
    before = rig.core.facts()
    rig.tail(7, 7, 11)
    rig.step()
    match = VLLM.fullmatch(summary(before, rig.core.facts(), 10.0))
    assert match is not None
    assert match.groups()[3:5] == ("1", "1")
    assert match.group(6) == "1.000, 0.000, 0.000"


def test_rounds_without_drafts_are_told_with_their_reasons() -> None:
    rig = Rig()
    before = rig.core.facts()
    rig.submit(max_tokens=3)
    rig.run(4)
    line = summary(before, rig.core.facts(), 10.0)
    assert line == "SpecDecoding metrics: no drafts in 3 rounds (prefill 1, no_drafter 2)"


@pytest.mark.parametrize("seconds", [10.0, 0.0])
def test_without_traffic_or_time_there_is_nothing_to_say(seconds: float) -> None:
    facts = drafted().core.facts()
    assert summary(facts, facts, seconds) == ""


def test_the_first_line_counts_from_nothing() -> None:
    assert VLLM.fullmatch(summary(Facts(), drafted().core.facts(), 1.0))


def test_lines_come_every_so_often_and_an_idle_time_has_none() -> None:
    rig = Rig(Limits())
    lines = Summaries(rig.core.facts(), 100.0)
    assert [lines.due(now) for now in (100.0, 109.9, 100.0 + EVERY)] == [False, False, True]
    assert lines.take(rig.core.facts(), 110.0) == ""
    assert not lines.due(119.9)
    assert "Accepted throughput: 0.40" in lines.take(drafted().core.facts(), 120.0)
