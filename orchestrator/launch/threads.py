"""Who gets how many threads, and how threads wait. Pure; the figures behind it are in `docs/benchmarks.md`.

Two teams of spinning threads on the same cores are the one thing that must not happen: each waits for a thread of its
own that the other keeps from running. So the cores are dealt out; only a team that has more than its share sleeps at
barriers instead of spinning. A bounded spin (GOMP_SPINCOUNT) was the worst of all: it costs the spin and the sleep.

Where cores are few, a target without those of its drafters is slower than drafts make it: then they work in turn, the
target on all cores, and drafters, while it waits for them, on those that its last barrier leaves alone.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LIGHT: Final = frozenset({"suffix", "ngram", "scripted", "wrong"})
"""Drafting methods that do not compute with torch; every other one is taken to."""
FEW: Final = 4
"""With fewer cores than this for each process that computes, target and drafters work in turn."""


@dataclass(frozen=True)
class Share:
    """What one process may use."""

    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


def _computing(drafters: int, method: str) -> int:
    """Drafters that compute with torch."""
    return drafters if method not in LIGHT else 0


def in_turn(cores: int, verifiers: int, drafters: int, method: str, *, prefill: int = 0) -> bool:
    """Whether drafters had better wait while the target computes, and it for them."""
    computing = _computing(drafters, method)
    return computing > 0 and cores < FEW * (verifiers + prefill + computing)


def shares(
    cores: int,
    verifiers: int,
    drafters: int,
    method: str,
    wanted: Mapping[str, int] | None = None,
    *,
    prefill: int = 0,
    turns: bool = False,
) -> Mapping[str, Share]:
    """A share for each role; `wanted` holds numbers of threads that the user insists on.

    `turns`: target and drafters do not compute at the same time.
    """
    computing = _computing(drafters, method)
    each = max(1, cores // (verifiers + prefill + computing))
    beside = 0 if turns else computing
    numbers = {
        "verifier": max(1, (cores - (prefill + beside) * each) // verifiers),
        **({"prefill": each} if prefill else {}),
        "drafter": each if computing else 1,
        "front": 1,
    }
    numbers |= {role: count for role, count in (wanted or {}).items() if role in numbers}
    counts = {"verifier": verifiers, "prefill": prefill, "drafter": beside}
    crowded = sum(numbers.get(role, 0) * count for role, count in counts.items()) > cores
    return {role: Share(count, _environment(count, crowded)) for role, count in numbers.items()}


def _environment(threads: int, crowded: bool) -> Mapping[str, str]:
    environment = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    if threads > 1 and crowded:
        environment |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    return environment


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, math.ceil(int(quota) / int(period))))
