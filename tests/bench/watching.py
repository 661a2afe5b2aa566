"""What watching costs: `python -m tests.bench.watching`. Microseconds of CPU, medians; no service, no engine.

One step of so many choices, each with drafts: what the core records of it (numbers always, spans where traced), what
the tracer makes of that, and what a report costs once a second.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.messages import Report
from protocol.spans import Context, Span
from protocol.tracing import Tracer
from tests.verifier.rig import Letters, generation, with_tail
from tests.verifier.test_core import Rig
from verifier.generation import Generation
from verifier.record import Record
from verifier.step import Round, Step
from verifier.text import TimedDetokenizer

REPEATS = 200


class Nowhere(SpanExporter):
    """A collector that takes everything at once."""

    def export(self, _spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def micro(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median microseconds of CPU time of this thread."""
    spent = []
    for _ in range(repeats):
        begun = time.thread_time_ns()
        work()
        spent.append(time.thread_time_ns() - begun)
    return median(spent) / 1000


def choices(count: int, *, traced: bool) -> list[Generation]:
    """In the midst of decoding, bound to a drafter."""
    made = []
    for number in range(count):
        each = with_tail(generation(number, 16, [1, 2, 3], max_tokens=10_000), 4, 5)
        each.admitted, each.first, each.last = 0.5, 1.0, 1.0
        if traced:
            each.context = Context(trace=number + 1, span=number + 1)
            each.timed = TimedDetokenizer(Letters(), time.monotonic)
        made.append(each)
    return made


class Steps:
    """Steps of so many choices, all of them traced or none."""

    def __init__(self, count: int, *, traced: bool) -> None:
        self.record = Record(8)
        self._choices = choices(count, traced=traced)
        self._part, self._step = Round(4, 3, 4, "", 2.0, 2.1), Step(())

    def one(self) -> None:
        for each in self._choices:
            if (
                each.timed is not None
            ):  # making text costs something either way: this is a little too much
                for token in range(self._part.taken):
                    each.timed.step(token)
            self.record.committed(each, self._part)
        self.record.stepped(self._step, 2.0, 2.1)

    def spans(self) -> list[Span]:
        """Those of one step."""
        self.record.spans.take()
        self.one()
        return self.record.spans.take()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choices", type=int, nargs="*", default=[1, 8, 64])
    options = parser.parse_args(arguments)
    write = sys.stdout.write
    write(f"{'choices':>7} {'numbers':>8} {'+ spans':>8} {'tracer':>8}   microseconds a step\n")
    tracer = Tracer("verifier", "verifier-0", Nowhere())
    for count in options.choices:
        plain, traced = Steps(count, traced=False), Steps(count, traced=True)
        numbers, both = micro(plain.one), micro(traced.one)
        made = micro(partial(tracer, traced.spans()))
        write(f"{count:>7} {numbers:8.1f} {both - numbers:8.1f} {made:8.1f}\n")
    tracer.close()
    _report(write)


def _report(write: Callable[[str], object]) -> None:
    core, codec = Rig().core, Codec(LinkConfig())
    report = Report("verifier-0", "verifier", 1, core.facts())
    frames = [bytes(part) for part in codec.encode(Kind.DATA, 1, 1, 1, (report,))]
    write(f"facts of a verifier {micro(core.facts):.0f}, ")
    write(f"writing them {micro(lambda: codec.encode(Kind.DATA, 1, 1, 1, (report,))):.0f}, ")
    write(f"reading them {micro(lambda: codec.decode(frames)):.0f} microseconds, ")
    write(f"{sum(map(len, frames))} bytes\n")


if __name__ == "__main__":
    main()
