"""What a plan costs: `python -m tests.bench.planning`. One core; the planner has learned before, as it would have."""

import argparse
import sys
from time import perf_counter

import numpy as np

from verifier.config import BudgetConfig, PlannerConfig
from verifier.planner import Candidate, Outcome, Seen
from verifier.planners import PLANNERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2000)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    sys.stdout.write(f"{given.requests} requests x {given.slots} slots, microseconds a plan\n")
    for name, make in PLANNERS.items():
        always = BudgetConfig(probe_steps=1 << 30)  # drafts pay: its plans without drafts are quick
        config = PlannerConfig(draft_length=given.slots, patience=0.0, budget=always)
        planner = make(config)
        times = []
        for step in range(given.rounds):
            asked = [
                Candidate(given.slots, 999, row, number, "suffix")
                for number, row in enumerate(rng.beta(5, 1, (given.requests, given.slots)).tolist())
            ]
            began = perf_counter()
            lengths = planner.lengths(asked, 1 << 30)
            times.append(1e6 * (perf_counter() - began))
            if step % 10 == 0:
                seen = [
                    Seen(each.request, each.label, length, length // 2, 1, each.confidences)
                    for each, length in zip(asked, lengths, strict=True)
                ]
                seconds = 0.01 + 0.0001 * sum(lengths)
                planner.learn(Outcome(seen, sum(lengths) + len(asked), 0, seconds, seconds))
        ordered = sorted(times)
        p50, p99 = ordered[len(times) // 2], ordered[int(0.99 * len(times))]
        sys.stdout.write(f"{name:<10} p50 {p50:7.0f}   p99 {p99:7.0f}\n")


if __name__ == "__main__":
    main()
