"""Microseconds for one proposal of each text-matching method: `python -m tests.bench.proposers`."""

import random
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

from drafter.config import DrafterConfig
from drafter.mirror import Mirror
from drafter.proposers import PROPOSERS, Proposer
from drafter.proposers.suffix import SuffixProposer
from protocol.messages import DraftSync, VerifyCommit

CONTEXTS = (300, 1000, 4000)
MIRRORS = (1, 64)
WANT = 64
STEPS = 20
COMMIT = 5


def words(source: random.Random, size: int) -> list[int]:
    """Text with the skew of natural language, in which about every third passage was seen before."""
    text: list[int] = []
    while len(text) < size:
        if len(text) > 50 and source.random() < 0.3:
            start = source.randrange(len(text) - 20)
            text += text[start : start + source.randrange(2, 20)]
        else:
            text += [min(48_000, int(source.paretovariate(0.6))) for _ in range(8)]
    return text[:size]


def copying(_: random.Random, size: int) -> list[int]:
    """The second half is the first once more: every proposal is a full one."""
    return [1000 + place % (size // 2) for place in range(size)]


def measure(proposer: Proposer, texts: list[list[int]]) -> tuple[float, float, float]:
    """The first call for the first mirror in milliseconds; then, a mirror: median microseconds, tokens proposed."""
    lead = STEPS * COMMIT
    mirrors = [
        Mirror.open(1, DraftSync(number, 1, tuple(text[:-lead]), (), WANT))
        for number, text in enumerate(texts)
    ]
    for mirror in mirrors:
        proposer.open(mirror)
    began = perf_counter()
    proposer.propose([(mirrors[0], WANT)])
    first = perf_counter() - began
    while any(proposal.pending for proposal in proposer.propose([(each, 1) for each in mirrors])):
        pass
    times, tokens = [], 0
    for step in range(STEPS):
        wants = [(mirror, mirror.room) for mirror in mirrors]
        began = perf_counter()
        proposals = proposer.propose(wants)
        times.append(perf_counter() - began)
        for mirror, text, proposal in zip(mirrors, texts, proposals, strict=True):
            tokens += len(proposal.tokens)
            mirror.extend(proposal.tokens, proposal.confidences)
            final = tuple(text[len(text) - lead :][step * COMMIT : (step + 1) * COMMIT])
            proposer.adopt(
                mirror, mirror.adopt(VerifyCommit(mirror.request, 1, mirror.base, final, WANT))
            )
    for mirror in mirrors:
        proposer.close(mirror)
    return first * 1e3, median(times) / len(mirrors) * 1e6, tokens / STEPS / len(mirrors)


def suffix(source: random.Random, *, store: int, corpus: int) -> Proposer:
    proposer = SuffixProposer(DrafterConfig().suffix)
    for _ in range(store // 1000):
        past = Mirror.open(1, DraftSync(0, 1, (), tuple(words(source, 1000)), WANT))
        proposer.open(past)
        proposer.close(past)
    if corpus:
        proposer.corpora.add("bench", [words(source, 1000) for _ in range(corpus // 1000)])
        proposer.corpora.wait(600)
    return proposer


def main() -> None:
    source = random.Random(0)
    methods: dict[str, Callable[[], Proposer]] = {
        "ngram": lambda: PROPOSERS["ngram"](DrafterConfig()),
        "suffix": lambda: suffix(source, store=0, corpus=0),
        "suffix, store 200k": lambda: suffix(source, store=200_000, corpus=0),
        "suffix, store 200k, corpus 1M": lambda: suffix(source, store=200_000, corpus=1_000_000),
    }
    for method, make in methods.items():
        proposer = make()
        for kind in (words, copying):
            for size in CONTEXTS:
                for count in MIRRORS:
                    texts = [kind(source, size) for _ in range(count)]
                    first, each, tokens = measure(proposer, texts)
                    sys.stdout.write(
                        f"{method:30} {kind.__name__:8} context {size:5} mirrors {count:3}:"
                        f" first {first:6.2f} ms, then {each:6.1f} us for {tokens:4.1f} tokens\n"
                    )


if __name__ == "__main__":
    main()
