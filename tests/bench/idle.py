"""What a service costs that nobody uses: `python -m tests.bench.idle`.

CPU time of each process over half a minute, after ten seconds to settle, as percent of one core.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from orchestrator.models import resolve
from tests.bench.cpu import roles, seconds, tree
from tests.e2e.service import Service, up

TARGET: Final = 3.0
"""Percent of a core that no role should exceed."""


def idle(service: Service, duration: float) -> None:
    """Let time pass; a service that ends meanwhile is an error."""
    with suppress(subprocess.TimeoutExpired):
        code = service.process.wait(duration)
        raise SystemExit(f"the service ended with code {code}")


def measure(service: Service, duration: float) -> dict[str, list[float]]:
    """Percent of a core that each process used, by role."""
    processes, role = tree(service), roles(service)
    begun = time.perf_counter()
    before = [seconds(process) for process in processes]
    idle(service, duration)
    used = [seconds(process) - start for process, start in zip(processes, before, strict=True)]
    elapsed = time.perf_counter() - begun
    shares: dict[str, list[float]] = defaultdict(list)
    for process, share in zip(processes, used, strict=True):
        shares[role.get(process.pid, "other")].append(100 * share / elapsed)
    return shares


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="smollm2-135m", help="name or folder of the model")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds before")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds that are measured")
    options = parser.parse_args(arguments)
    target = str(resolve(options.target, lambda *_: None))
    with (
        tempfile.TemporaryDirectory() as folder,
        up(target, Path(folder), "--drafters", "2") as service,
    ):
        idle(service, options.settle)
        shares = measure(service, options.seconds)
    write = sys.stdout.write
    write(f"idle for {options.seconds:g} s, percent of a core (should be below {TARGET:g})\n")
    write(f"{'role':<10} {'processes':>9} {'each':>6} {'together':>8}\n")
    for name, each in shares.items():
        mark = "" if sum(each) < TARGET else "  too much"
        write(f"{name:<10} {len(each):>9} {max(each):6.2f} {sum(each):8.2f}{mark}\n")
    total = sum(sum(each) for each in shares.values())
    write(f"{'all':<10} {sum(map(len, shares.values())):>9} {'':>6} {total:8.2f}\n")


if __name__ == "__main__":
    main()
