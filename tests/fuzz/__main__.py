"""Fuzzing by hand: `python -m tests.fuzz --inputs 1000000 [--seed N]`."""

import argparse
import sys
import time

import psutil

from tests.fuzz.session import Session


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    session, began = Session(given.seed), time.perf_counter()
    for _ in range(given.inputs):
        session.feed()
    seconds = time.perf_counter() - began
    memory = psutil.Process().memory_info().rss >> 20
    sys.stdout.write(
        f"{session.inputs} inputs, {session.read} of them frames, in {seconds:.1f} s; {memory} MiB; "
        f"{session.honest} answers to honest clients; held: {session.held()}\n"
    )


if __name__ == "__main__":
    main()
