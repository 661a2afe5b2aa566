"""`orchestrator bench mesh`: what the mesh costs, without models. Drafters are processes, their proposer is free.

- A round trip: a commit for each request in one frame, a row of guesses for each in one frame back, every row taken by
  its tail; in turn with a bare ZeroMQ socket that carries as many bytes there and back.
- Throughput: the same with two drafters, in tail tokens a second through one verifier.
- Mirrors: the cost of one, by how many a drafter holds; all of them at work, and sixteen of them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from rich.table import Table

from orchestrator.bench.mesh_links import Bare, Verifier, process
from orchestrator.bench.results import quantile
from orchestrator.bench.table import columns

LENGTH: Final = 4
"""Guesses in a row."""
FEW: Final = 16
"""Requests at work where the others rest."""


@dataclass(frozen=True, kw_only=True)
class Trip:
    """Microseconds of a round trip, and of the bare socket in turn with it."""

    requests: int
    there: int
    back: int
    p50: float
    p99: float
    bare_p50: float
    bare_p99: float


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Tail tokens a second through one verifier, and how much of a core it took for that."""

    drafters: int
    requests: int
    tokens_per_s: float
    verifier_core: float


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Microseconds a round and mirror, all mirrors of a drafter at work; and a round of a few among so many."""

    mirrors: int
    each: float
    few: float


@dataclass(frozen=True, kw_only=True)
class MeshFigures:
    """All of it."""

    trip: Trip
    flow: Flow
    crowds: tuple[Crowd, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(rounds: int, mirrors: Sequence[int]) -> MeshFigures:
    """Everything, one after the other."""
    return MeshFigures(
        trip=trip(64, rounds),
        flow=flow(2, 64, rounds),
        crowds=tuple(crowd(count, max(20, rounds // 10)) for count in mirrors),
    )


def trip(requests: int, rounds: int) -> Trip:
    with ExitStack() as stack:
        verifier = _verifier(stack, 1, requests)
        bare = Bare(stack.enter_context(process("echo")), requests, LENGTH)
        stack.callback(bare.close)
        everybody = range(requests)
        pairs: list[tuple[float, float]] = []
        for _ in range(_warm(rounds) + rounds):
            verifier.commit(everybody)
            pairs.append((_timed(lambda: verifier.round(everybody)), _timed(bare.round)))
    ours, theirs = zip(*pairs[-rounds:], strict=True)
    there, back = bare.size
    return Trip(
        requests=requests,
        there=there,
        back=back,
        p50=quantile(ours, 0.5),
        p99=quantile(ours, 0.99),
        bare_p50=quantile(theirs, 0.5),
        bare_p99=quantile(theirs, 0.99),
    )


def flow(drafters: int, requests: int, rounds: int) -> Flow:
    with ExitStack() as stack:
        verifier = _verifier(stack, drafters, requests)
        _rounds(verifier, range(requests), _warm(rounds))
        begun, worked = time.perf_counter(), time.process_time()
        _rounds(verifier, range(requests), rounds)
        seconds = time.perf_counter() - begun
        busy = time.process_time() - worked
    return Flow(
        drafters=drafters,
        requests=requests,
        tokens_per_s=rounds * requests * LENGTH / seconds,
        verifier_core=busy / seconds,
    )


def crowd(mirrors: int, rounds: int) -> Crowd:
    with ExitStack() as stack:
        verifier = _verifier(stack, 1, mirrors)
        times = {}
        for requests in (range(mirrors), range(min(FEW, mirrors))):
            _rounds(verifier, requests, _warm(rounds))
            times[len(requests)] = median(_rounds(verifier, requests, rounds))
    return Crowd(mirrors=mirrors, each=times[mirrors] / mirrors, few=times[min(FEW, mirrors)])


def tables(figures: MeshFigures) -> Iterator[tuple[str, Table]]:
    """For people: what each is about, and the figures."""
    one, many = figures.trip, figures.flow
    yield (
        f"{one.requests} commits there ({one.there} bytes), {one.requests} rows back ({one.back} bytes)",
        columns(
            ("", "p50 us", "p99 us"),
            [
                ("mesh", f"{one.p50:.0f}", f"{one.p99:.0f}"),
                ("bare socket", f"{one.bare_p50:.0f}", f"{one.bare_p99:.0f}"),
                ("ratio", f"{one.p50 / one.bare_p50:.2f}", f"{one.p99 / one.bare_p99:.2f}"),
            ],
            left=1,
        ),
    )
    yield (
        f"{many.drafters} drafters, {many.requests} requests, {LENGTH} guesses a row",
        columns(
            ("tail tokens/s", "cores of the verifier"),
            [(f"{many.tokens_per_s:,.0f}", f"{many.verifier_core:.2f}")],
            left=0,
        ),
    )
    yield (
        "mirrors of one drafter, medians",
        columns(
            ("mirrors", "all at work, us each", f"{FEW} at work, us a round"),
            [(str(each.mirrors), f"{each.each:.1f}", f"{each.few:.0f}") for each in figures.crowds],
            left=0,
        ),
    )


def _verifier(stack: ExitStack, drafters: int, requests: int) -> Verifier:
    addresses = [stack.enter_context(process("drafter", LENGTH)) for _ in range(drafters)]
    verifier = Verifier(addresses, requests, LENGTH)
    stack.callback(verifier.close)
    return verifier


def _rounds(verifier: Verifier, requests: Sequence[int], count: int) -> list[float]:
    """Microseconds of each of so many rounds."""
    times = []
    for _ in range(count):
        verifier.commit(requests)
        times.append(_timed(lambda: verifier.round(requests)))
    return times


def _timed(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e6


def _warm(rounds: int) -> int:
    return max(5, rounds // 10)
