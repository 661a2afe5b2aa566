"""The dashboard over made-up numbers: `python -m tests.browser.stage FOLDER`.

Writes a picture of each of several states, light and dark, for eyes to judge.
"""

import math
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from orchestrator.front.dashboard.feed import Feed
from orchestrator.front.dashboard.visits import Visits
from orchestrator.front.messages import Failure, Member, Query, Status
from orchestrator.front.server import Server, listen
from protocol.facts import level, named, one
from protocol.messages import Done, Emit, Ending, Facts, Report, Sampling, Statistics
from tests.browser.browsing import browse

SECONDS: Final = 240
READY: Final = Status(
    alive=True, ready=True, verifiers=1, draft_length=8, members=(Member("drafter", "drafter-0"),)
)
LENGTH: Final = 8


def verifier(name: str, second: int, drafters: Sequence[str]) -> Report:
    """One that has decoded for so many seconds, now more, now less."""
    rounds = round(20 * second + 40 * math.sin(second / 15) + 60)
    drafts = round(rounds * 0.9) if drafters else 0
    drafted_at = {str(p): round(drafts * (0.97**p)) for p in range(LENGTH)}
    accepted_at = {str(p): round(drafts * (0.8 ** (p + 1))) for p in range(LENGTH)}
    drafted, accepted = sum(drafted_at.values()), sum(accepted_at.values())
    each = max(1, len(drafters))
    counters = {
        "emitted_tokens": one(accepted + rounds),
        "rounds": one(rounds),
        "drafts": one(drafts),
        "draft_tokens": one(drafted),
        "accepted_tokens": one(accepted),
        "drafted_at": drafted_at,
        "accepted_at": accepted_at,
        "drafted_by": dict.fromkeys(drafters, drafted // each),
        "accepted_by": {
            drafter: round(accepted / each * (0.7 + 0.3 / (number + 1)))
            for number, drafter in enumerate(drafters)
        },
        "plain_rounds": {"prefill": second // 4, "late": rounds - drafts - second // 4},
        "requests_ended": {"length": second // 4},
    }
    trips = {"front-0": 0.0021, **{drafter: 0.0008 * (n + 1) for n, drafter in enumerate(drafters)}}
    gauges = {
        "decoding_rate": {"drafts": 61.0, "plain": 22.0 if drafters else 61.0},
        "running": level(5),
        "waiting": level(2),
        "pages_used": level(0.37),
        "weights": named("7ef915c9bf9d0011"),
        "device": named("cpu"),
        "round_trip_seconds": trips,
        "bound": dict.fromkeys(drafters, 1.0),
    }
    return Report(name, "verifier", second, Facts(counters, gauges))


def drafter(name: str, method: str = "suffix") -> Report:
    gauges = {"method": named(method), "mirrors": level(3), "device": named("cpu")}
    return Report(name, "drafter", 1, Facts(gauges=gauges))


def front(**ages: float) -> Report:
    age = {name.replace("_", "-"): value for name, value in ages.items()}
    return Report("front-0", "front", 1, Facts(gauges={"in_flight": level(5), "report_age": age}))


class Stage:
    """A page over a feed whose reports are made up."""

    def __init__(self, status: Status = READY) -> None:
        self.now = 1_700_000_000.0
        self.reports: list[Report] = [front()]
        self.visits = Visits()
        self.feed = Feed(
            "smollm2-135m",
            lambda: status,
            lambda: self.reports,
            self.visits,
            clock=lambda: self.now,
            day=lambda: self.now,
        )

    def second(self, *reports: Report) -> None:
        self.now += 1.0
        self.reports = list(reports)
        self.feed.look()

    def asked(self, rounds: int, *, over: bool = True, pace: float = 0.045) -> None:
        """An answer whose rounds brought now one token, now several."""
        query = Query((1,) * 24, Ending(max_tokens=99), Sampling(), name="cmpl-0")
        visit = self.visits.begin(query, self.now)
        at = self.now + 0.35
        for number in range(rounds):
            tokens = 1 if number == 0 else 1 + (number * 7 + rounds) % 9
            words = tuple(range(tokens))
            self.visits.hear(visit, Emit(1, 0, words, "x", (True,) * (tokens - 1) + (False,)), at)
            at += pace * (1 + (number % 3) / 4)
        if over:
            statistics = Statistics(rounds, 5 * rounds, 4 * rounds)
            self.visits.hear(visit, Done(1, 0, "length", 24, 99, statistics), at)

    def failed(self) -> None:
        visit = self.visits.begin(Query((1,) * 9, Ending(max_tokens=9), Sampling()), self.now)
        failure = Failure(503, "lost", code="verifier_lost")
        self.visits.hear(visit, Emit(1, 0, (1,), "x"), self.now + 0.4)
        self.visits.hear(visit, failure, self.now + 0.9)


@contextmanager
def played(stage: Stage) -> Iterator[str]:
    """Where the page is."""
    listening = listen("127.0.0.1", 0)
    feed = stage.feed
    routes = [Route("/dashboard", feed.page), Route("/dashboard/events", feed.stream)]
    config = uvicorn.Config(Starlette(routes=routes), log_level="warning", lifespan="off")
    server = Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/dashboard"
    finally:
        server.force_exit = server.should_exit = True
        thread.join(10)


def empty() -> Stage:
    """A service that nobody asked anything yet."""
    stage = Stage()
    for _ in range(3):
        stage.second(front(), verifier("verifier-0", 0, ()), drafter("drafter-0"))
    return stage


def busy() -> Stage:
    """Two verifiers, four drafters, many requests; one drafter is gone, one is silent."""
    names = [f"drafter-{number}" for number in range(4)]
    stage = Stage()
    for second in range(SECONDS):
        there = names if second < SECONDS - 9 else names[:3]
        stage.second(
            front(drafter_2=7.0 if second > SECONDS - 7 else 0.4),
            verifier("verifier-0", second, there),
            verifier("verifier-1", second, there),
            *(drafter(name, "suffix" if name < "drafter-2" else "ngram") for name in there),
        )
        if second % 24 == 5:
            stage.asked(8 + second % 21)
    stage.failed()
    stage.asked(30)
    stage.asked(6, over=False)
    stage.now += 0.9
    stage.feed.look()
    return stage


def plain() -> Stage:
    """Nobody drafts."""
    stage = Stage(Status(alive=True, ready=True, verifiers=1, draft_length=4))
    for second in range(60):
        stage.second(front(), verifier("verifier-0", second, ()))
    stage.asked(20)
    stage.feed.look()
    return stage


def main() -> None:
    """A picture of each state."""
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for state in (empty, busy, plain):
        stage = state()
        with played(stage) as url:
            seen = browse(
                ("open", url),
                ("see", ".pill.ready"),
                ("shot", str(place / f"{state.__name__}-light.png")),
                ("scheme", "dark"),
                ("shot", str(place / f"{state.__name__}-dark.png")),
                ("size", 420, 900),
                ("shot", str(place / f"{state.__name__}-narrow.png")),
            )
        sys.stdout.write(f"{state.__name__}: {len(seen.errors)} errors {seen.errors[:3]}\n")


if __name__ == "__main__":
    main()
