"""A hundred requests that end in every possible way leave every pool as it was (reported fault 3), over HTTP."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from drafter.config import DrafterConfig
from tests.cluster import Cluster
from tests.exact.conftest import Target
from tests.web import Json, Web


@pytest.mark.parametrize(("page_size", "pages"), [(1, 600), (16, 64)])
@pytest.mark.parametrize(
    ("method", "draft_length"), [("standalone", 1), ("standalone", 8), ("wrong", 4)]
)
def test_nothing_is_left(
    target: Target, method: str, draft_length: int, page_size: int, pages: int
) -> None:
    drafter = DrafterConfig(
        node_id="drafter-0", method=method, model=target.folder, dtype="float32"
    )
    cluster = Cluster(
        target.folder,
        [drafter],
        draft_length=draft_length,
        page_size=page_size,
        pages=pages,
        max_running=4,  # so that most of them wait
    )
    web = Web(cluster, target.folder)

    def body(number: int, **more: Any) -> Json:
        prompt = target.prompts[number % len(target.prompts)]
        return {"prompt": prompt[-60:], "max_tokens": 20, "seed": number, "stream": True, **more}

    def visits(number: int) -> list[Awaitable[list[Json]]]:
        many = list(range(5, 250))
        return [
            web.leave(body(number, stop_token_ids=many), 10**6),  # to a stop
            web.leave(body(number, ignore_eos=True, logprobs=1), 10**6),  # to the length
            web.leave(body(number, ignore_eos=True), 1 + number % 4),  # left in mid-stream
            web.leave(body(number, n=3, echo=True, logprobs=0), number % 2),  # left while waiting
        ]

    async def go() -> list[list[Json]]:
        return await web.among([each for number in range(25) for each in visits(number)])

    heard = asyncio.run(go())
    web.settle()
    assert len(heard) == 100
    ended = [each for each in heard if each and each[-1].get("more_body") is False]
    assert 50 <= len(ended) < 100
    counts = cluster.core.facts().counters["requests_ended"]
    assert counts["stop"] >= 25
    assert counts["length"] >= 25
    assert counts["abort"] >= 25
