"""Answers that stream in threads while something else is measured: it begins once all of them do."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, wait

from orchestrator.bench.client import SILENCE
from orchestrator.bench.errors import BenchError

Streams = Callable[[Callable[[], None]], None]
"""What a thread does; it calls what it is given whenever a piece comes."""


def begin(threads: Executor, works: Sequence[Streams]) -> list[Future[None]]:
    """Start these; all have had a piece when it returns.

    What ended one before that is raised at once, and a BenchError where one stays silent.
    """
    streaming: list[Future[None]] = [Future() for _ in works]
    running = [
        threads.submit(_run, work, said) for work, said in zip(works, streaming, strict=True)
    ]
    said, silent = wait(streaming, SILENCE, FIRST_EXCEPTION)
    for each in said:
        each.result()
    if silent:
        raise BenchError("answers did not begin to stream")
    return running


def _run(work: Streams, streaming: Future[None]) -> None:
    def piece() -> None:
        if not streaming.done():
            streaming.set_result(None)

    try:
        work(piece)
    except BaseException as error:
        if not streaming.done():
            streaming.set_exception(error)
        raise
