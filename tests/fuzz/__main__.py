"""Fuzzing by hand: `python -m tests.fuzz --inputs 1000000 [--seed N]`."""

import argparse
import sys
import time

import psutil

from tests.fuzz.session import FLAT, Session


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    session, began, process = Session(given.seed), time.perf_counter(), psutil.Process()
    for _ in range(given.inputs // 10):
        session.feed()
    before = process.memory_info().rss
    for _ in range(given.inputs - given.inputs // 10):
        session.feed()
    seconds, after = time.perf_counter() - began, process.memory_info().rss
    wrong = session.wrong()
    if after - before >= FLAT:
        wrong.append("memory grows")
    sys.stdout.write(
        f"{session.inputs} inputs, {session.read} of them frames, in {seconds:.1f} s; "
        f"{before >> 20} MiB after a tenth of them, {after >> 20} MiB after all; "
        f"{session.honest} answers to honest clients; held: {session.held()}\n"
    )
    sys.stdout.write("".join(f"WRONG: {each}\n" for each in wrong))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
