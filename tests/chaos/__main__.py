"""Chaos by hand: `python -m tests.chaos --rounds 100 [--victims drafter|verifier] [--target tiny|default]`."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.chaos.run import STALL, TARGETS, run

WORST: Final = 5
"""So many of the longest gaps are told one by one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--victims", choices=("drafter", "verifier"), default="drafter")
    parser.add_argument("--target", choices=tuple(TARGETS), default="tiny")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").mkdir()
        outcome = run(Path(folder), given.rounds, given.seed, given.victims, given.target)
    record = outcome.record
    gaps = sorted(seconds for _, seconds in record.gaps)
    wrong = list(record.faults)
    if given.victims == "drafter":
        wrong += [f"{record.errors} requests failed, and no verifier was touched"] * (
            record.errors > 0
        )
        wrong += [f"a stream waited {outcome.stall * 1e3:.0f} ms longer than for a plain step"] * (
            outcome.stall > STALL
        )
    lines = [
        f"{given.target} target, faults made: {dict(outcome.faults_made)} in {outcome.seconds:.0f} s",
        f"answers {record.answers}, pieces {record.tokens}, requests failed {record.errors}, texts changed "
        f"{len(record.faults)}",
        f"longest gap of a stream: {gaps[-1] * 1e3:.0f} ms, {outcome.stall * 1e3:.0f} ms over a plain step "
        f"({outcome.plain_step * 1e3:.0f} ms before any fault, p99); p99.9 {gaps[int(len(gaps) * 0.999)] * 1e3:.1f} ms",
        *(
            f"  {wait * 1e3:.0f} ms, {outcome.behind(when - wait)}"
            for when, wait in sorted(record.gaps, key=lambda gap: -gap[1])[:WORST]
        ),
        f"a timer of this process was {outcome.late * 1e3:.0f} ms late at the most",
        *(
            f"{name}: {size:.0f} MiB, then {outcome.after.get(name, 0):.0f}"
            for name, size in outcome.before.items()
        ),
        *(f"WRONG: {fault}" for fault in wrong),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
