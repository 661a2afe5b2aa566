"""A drafter whose context is shorter than the target's (reported fault 9)."""

import pytest

from drafter.config import DrafterConfig
from protocol.messages import Ending
from tests.cluster import Answer, Cluster
from tests.exact.conftest import OUTPUT, Target, sure

LIMIT = 64


def cluster(target: Target) -> Cluster:
    drafter = DrafterConfig(
        node_id="drafter-0",
        method="standalone",
        model=target.folder,
        dtype="float32",
        context=LIMIT,
    )
    return Cluster(target.folder, [drafter], draft_length=4)


def accepted(answer: Answer) -> int:
    """All that was drafted, since the drafter has the target's weights."""
    assert answer.done
    told = answer.done.statistics
    assert told.accepted == told.drafted
    return told.accepted


@pytest.mark.parametrize("length", [20, 50, LIMIT - 1, LIMIT, LIMIT + 1, 300])
def test_beyond_it_a_request_goes_on_without_drafts_and_its_neighbour_with_them(
    target: Target, length: int
) -> None:
    (long, right), (short, other) = sure(target.model, length), sure(target.model, 9)
    served = cluster(target)
    one, beside = served.generate([long, short], Ending(OUTPUT))
    assert (one.tokens, beside.tokens) == (right.tokens, other.tokens)
    assert accepted(beside) > OUTPUT / 3
    assert not any(one.drafted[max(0, LIMIT - length) :])
    facts = served.core.facts().counters
    assert facts["unbindings"].get("context", 0) == (LIMIT - OUTPUT < length < LIMIT)
    if length >= LIMIT:
        assert accepted(one) == 0
        assert facts["plain_rounds"]["waiting"] >= OUTPUT - 1
    elif length + OUTPUT < LIMIT:
        assert accepted(one) > 0
