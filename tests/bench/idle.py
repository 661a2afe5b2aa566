"""What a service costs that nobody uses: `python -m tests.bench.idle`.

CPU time of each process over half a minute, after ten seconds to settle, as percent of one core. What a process of a
role starts for itself counts for it; `launcher` is `orchestrator up`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from orchestrator.bench.cpu import seconds
from orchestrator.models import resolve
from tests.e2e.service import Service, up

TARGET: Final = 3.0
"""Percent of a core that no process of the service should exceed, with what it started."""


def owners(service: Service) -> Mapping[str, list[psutil.Process]]:
    """The processes of the service by the name of the node that they belong to."""
    assert service.state
    launcher = psutil.Process(service.process.pid)
    nodes = {node.pid: node.name for node in service.state.nodes}
    owned: dict[str, list[psutil.Process]] = defaultdict(list)
    for process in (launcher, *launcher.children(recursive=True)):
        line = (each.pid for each in (process, *process.parents()))
        owned[next((nodes[pid] for pid in line if pid in nodes), "launcher")].append(process)
    missing = nodes.values() - owned.keys()
    assert not missing, f"not found below the launcher: {missing}"
    return owned


def idle(service: Service, duration: float) -> None:
    """Let time pass; a service that ends meanwhile is an error."""
    with suppress(subprocess.TimeoutExpired):
        code = service.process.wait(duration)
        raise SystemExit(f"the service ended with code {code}")


def measure(service: Service, duration: float) -> dict[str, float]:
    """Percent of a core that each node used."""
    owned = owners(service)
    begun = time.perf_counter()
    before = {name: sum(map(seconds, processes)) for name, processes in owned.items()}
    idle(service, duration)
    after = {name: sum(map(seconds, processes)) for name, processes in owned.items()}
    elapsed = time.perf_counter() - begun
    return {name: 100 * (after[name] - before[name]) / elapsed for name in owned}


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
    for name, share in shares.items():
        write(f"{name:<12} {share:6.2f}{'' if share < TARGET else '  too much'}\n")
    write(f"{'all':<12} {sum(shares.values()):6.2f}\n")


if __name__ == "__main__":
    main()
