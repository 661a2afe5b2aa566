"""What `orchestrator top` makes of two readings of the page of numbers."""

import io
from itertools import pairwise

import pytest
from rich.console import Console
from rich.live import Live

from orchestrator.commands.top import _show, pace, reading, rows
from protocol.rundir import NodeState, ServiceState

SERVICE = ServiceState(
    "service-1",
    1,
    "http://h:1",
    "tiny",
    "/tiny",
    (
        NodeState("verifier-0", "verifier", 2, "tcp://h:2", "ready"),
        NodeState("drafter-0", "drafter", 3, "tcp://h:3", "ready"),
    ),
)


def page(
    tokens: int, rounds: int, plain: int, drafted: int, accepted: int, prefix: str = "vllm:"
) -> str:
    """As a front door with one verifier and one drafter tells it."""
    mine = 'engine="verifier-0",model_name="tiny"'
    ours = 'node="verifier-0",role="verifier"'
    theirs = f'drafter="drafter-0",{ours}'
    return f"""
# TYPE {prefix}generation_tokens counter
{prefix}generation_tokens_total{{{mine}}} {tokens}
# TYPE {prefix}spec_decode_num_draft_tokens counter
{prefix}spec_decode_num_draft_tokens_total{{{mine}}} {drafted}
# TYPE {prefix}spec_decode_num_accepted_tokens counter
{prefix}spec_decode_num_accepted_tokens_total{{{mine}}} {accepted}
# TYPE {prefix}spec_decode_num_accepted_tokens_per_pos counter
{prefix}spec_decode_num_accepted_tokens_per_pos_total{{{mine},position="0"}} {accepted}
# TYPE {prefix}num_requests_running gauge
{prefix}num_requests_running{{{mine}}} 3
# TYPE {prefix}num_requests_waiting gauge
{prefix}num_requests_waiting{{{mine}}} 1
# TYPE {prefix}kv_cache_usage_perc gauge
{prefix}kv_cache_usage_perc{{{mine}}} 0.25
# TYPE draftmesh_rounds counter
draftmesh_rounds_total{{{ours}}} {rounds}
# TYPE draftmesh_plain_rounds counter
draftmesh_plain_rounds_total{{{ours},reason="late"}} {plain}
# TYPE draftmesh_drafted_tokens counter
draftmesh_drafted_tokens_total{{{theirs}}} {drafted}
# TYPE draftmesh_accepted_tokens counter
draftmesh_accepted_tokens_total{{{theirs}}} {accepted}
# TYPE draftmesh_round_trip_seconds gauge
draftmesh_round_trip_seconds{{{ours},peer="drafter-0"}} 0.002
# TYPE draftmesh_verifiers_live gauge
draftmesh_verifiers_live{{node="front-0",role="front"}} 1
"""


@pytest.mark.parametrize("prefix", ["vllm:", "my_"])
def test_the_pace_is_that_between_two_looks(prefix: str) -> None:
    before = reading(page(100, 50, 10, 200, 60, prefix), 10.0)
    going = pace(before, reading(page(160, 70, 15, 280, 100, prefix), 12.0))
    assert (going.tokens, going.rounds) == (30.0, 10.0)
    assert (going.a_round, going.acceptance, going.plain) == (3.0, 0.5, 0.25)
    assert (going.running, going.waiting, going.cache) == (3, 1, 0.25)


def test_where_nothing_went_on_nothing_is_divided_by_nothing() -> None:
    same = page(100, 50, 10, 200, 60)
    going = pace(reading(same, 1.0), reading(same, 2.0))
    assert (going.tokens, going.a_round, going.acceptance, going.plain) == (0.0, None, None, None)
    nothing = reading("", 0.0)
    assert pace(nothing, nothing).line.startswith("0.0 tokens/s")


def test_a_verifier_that_began_anew_counts_from_zero() -> None:
    going = pace(reading(page(100, 50, 10, 200, 60), 0.0), reading(page(20, 10, 5, 40, 20), 1.0))
    assert (going.tokens, going.a_round) == (20.0, 2.0)


def test_every_process_has_a_row_with_what_it_did_since() -> None:
    before, now = reading(page(0, 0, 0, 10, 0), 0.0), reading(page(0, 0, 0, 50, 30), 4.0)
    assert rows(SERVICE, before, now) == [
        ("verifier-0", "verifier", "ready", "", "", "75%", "10.0"),
        ("drafter-0", "drafter", "ready", "", "2.00 ms", "75%", "10.0"),
    ]


def test_a_terminal_gets_one_screen_that_is_written_over() -> None:
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=True, width=120)
    readings = [reading(page(100 * n, 50 * n, 0, 80 * n, 50 * n), float(n)) for n in range(3)]
    with Live(console=console, auto_refresh=False) as screen:
        for before, now in pairwise(readings):
            _show(SERVICE, before, now, screen, as_json=False)
    text = heard.getvalue()
    assert text.count("100.0 tokens/s") >= 2
    assert "\x1b[1A" in text, "the cursor goes up again"
    assert "drafter-0" in text
