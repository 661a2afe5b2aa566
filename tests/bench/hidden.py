"""What sending hidden states costs a verifier outside its forward: `python -m tests.bench.hidden`.

Requests that commit so many tokens a step, with features of so many states; the forward itself is left out. Figures are
per step: writing the rows beside the KV, and saying everything to a drafter (one gather, messages, frames), with rows
and without. The last lines are bytes for each committed token, raw and projected, as they were counted on the wire.
"""

import argparse
import random
import sys
from collections import Counter
from statistics import median
from time import perf_counter

import torch

from engine.features import Features, Projection
from engine.pages import PagePool
from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.link import LinkUp
from protocol.messages import AnyMessage, Ending, Limits, Submit, VerifyCommit
from verifier.commit import Output
from verifier.config import PlannerConfig
from verifier.drafting import Drafting
from verifier.generation import Generation
from verifier.hidden import Hidden
from verifier.planners.fixed import Fixed
from verifier.reading import FeatureRows

PAGE = 16
PROMPT = 128
LINK = 7


class Silent:
    def step(self, _token: int) -> str:
        return ""


class Bench:
    """Requests in steady decoding, bound to one drafter."""

    def __init__(self, requests: int, steps: int, features: Features | None, slots: int) -> None:
        planner = Fixed(PlannerConfig(draft_length=4))
        self.pool = PagePool(slots // PAGE, PAGE)
        self.drafting = Drafting(planner, 49152, Counter())
        if features is not None:
            rows = FeatureRows(features, PAGE)
            self.drafting.hidden = Hidden(rows, rows.row_bytes)
        needs = ("hidden",) if features else ()
        self.drafting.link_up(LinkUp(LINK, "drafter", "d", Limits(), "eagle3", needs=needs))
        self.features = features
        self.codec = Codec(LinkConfig(tensors=1024))
        self.generations = [self._generation(number, steps) for number in range(requests)]
        self.drafting.bind(self.generations, 0.0)
        self.say()

    def _generation(self, number: int, steps: int) -> Generation:
        prompt = tuple(random.Random(number).randrange(49152) for _ in range(PROMPT))
        submit = Submit(number, prompt, Ending(1 << 20))
        output = Output(submit.ending, frozenset(), Silent())
        generation = Generation(number, 1, submit, 0, 0.0, output, list(prompt))
        generation.sequence = self.pool.open(())
        self.pool.reserve(generation.sequence, PROMPT + 5 * steps + 8)
        generation.sequence.computed = PROMPT - 1
        return generation

    def commit(self, count: int) -> None:
        """Every request commits so many tokens; not measured."""
        for each in self.generations:
            tokens = [1] * count
            each.output.tokens += tokens
            each.line += tokens
            assert each.sequence is not None
            each.sequence.computed = len(each.line) - 1
            self.drafting.committed(each, tokens)

    def write(self, seen: dict[int, torch.Tensor], count: int) -> float:
        """The rows of a window of each request into their slots."""
        assert self.features is not None
        slots = [
            each.sequence.pages[position // PAGE] * PAGE + position % PAGE
            for each in self.generations
            if each.sequence is not None
            for position in range(each.sequence.computed, each.sequence.computed + count + 1)
        ]
        slots_T = torch.tensor(slots)
        began = perf_counter()
        self.features.write(slots_T, seen)
        return perf_counter() - began

    def say(self) -> tuple[float, int, int]:
        """Seconds, bytes of frames and tokens committed of everything that is to be said now."""
        size = tokens = 0
        began = perf_counter()
        while messages := self.drafting.messages(LINK):
            frames = self.codec.encode(Kind.DATA, LINK, 1, 1, messages)
            size += sum(map(len, frames))
            tokens += sum(map(_tokens, messages))
        return perf_counter() - began, size, tokens


def _tokens(message: AnyMessage) -> int:
    return len(message.tokens) if isinstance(message, VerifyCommit) else 0


def measure(name: str, options: argparse.Namespace, features: Features | None, slots: int) -> float:
    """One kind of rows; prints its figures and returns the milliseconds of saying."""
    bench = Bench(options.requests, options.steps, features, slots)
    window = options.requests * (options.tokens + 1)
    seen = {
        state: torch.randn(window, options.hidden).to(torch.bfloat16)
        for state in range(options.states)
    }
    writes, says, size, tokens = [], [], 0, 0
    for _ in range(options.steps):
        writes.append(bench.write(seen, options.tokens) if features else 0.0)
        bench.commit(options.tokens)
        seconds, more, committed = bench.say()
        says.append(seconds)
        size, tokens = size + more, tokens + committed
    write, say = median(writes) * 1e3, median(says) * 1e3
    sys.stdout.write(
        f"{name:10} write {write:6.3f} ms, say {say:6.3f} ms a step; {size / tokens:8.1f} bytes a token\n"
    )
    return say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--states", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=576)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    per_request = -(-(PROMPT + 5 * options.steps + 8) // PAGE)
    slots = (options.requests * per_request + 1) * PAGE
    states, hidden = range(options.states), options.hidden
    fc = Projection((torch.randn(hidden, options.states * hidden) * 0.02).to(torch.bfloat16))
    plain = measure("no rows", options, None, slots)
    raw = measure("raw", options, Features(states, hidden, slots, "bfloat16"), slots)
    small = measure("projected", options, Features(states, hidden, slots, "bfloat16", fc), slots)
    sys.stdout.write(
        f"saying rows costs {raw - plain:.3f} ms a step raw, {small - plain:.3f} projected\n"
    )


if __name__ == "__main__":
    main()
