"""After every test of real processes: what they say they counted can be."""

from collections.abc import Iterator

import pytest

from protocol.messages import Facts
from tests import identities
from tests.e2e import numbers
from tests.e2e.service import RUNNING

EMPTY = ("bound", "promptness", "drafted_by", "accepted_by", "requests_refused", "unbindings")
"""Facts that have no series while nothing divides them."""


@pytest.fixture(autouse=True)
def _numbers_of_processes_can_be() -> Iterator[None]:
    yield
    for service in RUNNING:
        if service.ready():
            for (role, _), facts in numbers.read(service.url, service.key).items():
                if role == "verifier":
                    identities.check(whole(facts))


def whole(facts: Facts) -> Facts:
    for name in EMPTY:
        (facts.gauges if name in {"bound", "promptness"} else facts.counters).setdefault(name, {})
    return facts
