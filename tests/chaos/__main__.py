"""Chaos by hand: `python -m tests.chaos --rounds 100 [--victims drafter|verifier] [--seed N]`."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--victims", default="drafter")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").mkdir()
        outcome = run(Path(folder), given.rounds, given.seed, given.victims)
    record = outcome.record
    gaps = sorted(seconds for _, seconds in record.gaps)
    lines = [
        f"faults made: {outcome.faults_made} in {outcome.seconds:.0f} s",
        f"answers {record.answers}, pieces {record.tokens}, errors {record.errors}",
        f"longest gap of a stream: {gaps[-1] * 1e3:.0f} ms (before any fault {outcome.plain_gap * 1e3:.0f} ms), "
        f"p99.9 {gaps[int(len(gaps) * 0.999)] * 1e3:.1f} ms",
        *(
            f"{name}: {size:.0f} MiB, then {outcome.after.get(name, 0):.0f}"
            for name, size in outcome.before.items()
        ),
        *(f"WRONG: {fault}" for fault in record.faults),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(bool(record.faults))


if __name__ == "__main__":
    main()
