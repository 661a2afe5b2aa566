"""What judging costs beside the plain draw of the same logits: `python -m tests.bench.verification`.

Rounds alternate between a rule and its baseline; shown are medians and the median of the ratios of one round. At
temperature 0 the baseline is the argmax of all rows, else plain sampling of them.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from engine.params import SamplingParams
from engine.philox import Role, uniforms
from engine.sampling import _argmax, sample
from protocol.laws import Law
from protocol.messages import Sampling
from verifier.acceptance import RULES, make
from verifier.config import PlannerConfig, SyntheticConfig, VerifierConfig
from verifier.step import Work

SAMPLINGS = {
    "greedy": Sampling(),
    "T 1": Sampling(temperature=1.0),
    "T 1, top-p 0.9": Sampling(temperature=1.0, top_p=0.9),
    "T 1, top-k 20": Sampling(temperature=1.0, top_k=20),
}


def windows(
    logits_NV: Tensor, requests: int, drafts: int, width: int, asked: Sampling
) -> list[Work]:
    """Drafts from laws over the `width` likeliest tokens, so that about half of them are kept."""
    rng = np.random.default_rng(1)
    best = logits_NV.topk(width, dim=-1).indices.numpy().astype(np.int32)
    works = []
    for request in range(requests):
        laws, guesses = [], []
        for row in range(request * (drafts + 1), request * (drafts + 1) + drafts):
            values = rng.dirichlet(np.full(width, 0.3)).astype(np.float32)
            laws.append(Law(best[row], values))
            guesses.append(int(best[row][int(values.argmax())]))
        works.append(
            Work(
                request=request,
                tokens=(0, *guesses),
                start=100,
                pages=(),
                drafts=drafts,
                draws=drafts + 1,
                sampling=Sampling(asked.temperature, asked.top_k, asked.top_p, seed=request),
                choice=0,
                laws=laws,
            )
        )
    return works


def plain(logits_NV: Tensor, asked: Sampling) -> Callable[[], object]:
    if asked.temperature == 0.0:
        return lambda: _argmax(logits_NV)
    params = [
        SamplingParams(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p)
    ] * len(logits_NV)
    numbers = uniforms(0, 0, np.arange(len(logits_NV)), Role.TARGET)
    return lambda: sample(logits_NV, params, numbers)


def timed(act: Callable[[], object]) -> float:
    began = perf_counter()
    act()
    return perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--drafts", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=49_152)
    parser.add_argument("--slice", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.manual_seed(0)
    logits_NV = torch.randn(given.requests * (given.drafts + 1), given.vocabulary) * 3
    for name, asked in SAMPLINGS.items():
        works = windows(logits_NV, given.requests, given.drafts, given.slice, asked)
        base = plain(logits_NV, asked)
        for rule in RULES:
            if rule == "greedy" and asked.temperature > 0:
                continue
            config = VerifierConfig.model_validate(
                {
                    "model": ".",
                    "rule": rule,
                    "planner": PlannerConfig(draft_length=given.drafts),
                    "synthetic": SyntheticConfig(length=3.0 if rule == "synthetic" else None),
                }
            )
            judge = make(config)
            pairs = [
                (timed(base), timed(lambda: judge(works, logits_NV)))  # noqa: B023
                for _ in range(given.rounds + 1)
            ][1:]
            sys.stdout.write(
                f"{name:15} {rule:10} plain {1e3 * median(a for a, _ in pairs):7.1f} ms,"
                f" judged {1e3 * median(b for _, b in pairs):7.1f} ms,"
                f" ratio {median(b / a for a, b in pairs):5.2f}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
