"""What text-matching drafts are worth where an answer copies its prompt: `python -m tests.bench.copying`.

Two services in turn, as a user starts them, with drafters and without; one client, one request at a
time, the same prompts at temperature 0. Every run has a fresh service, so that neither the prefix
cache nor the drafters' store knows anything, and is warmed up with texts that are not measured.
Runs are paired, and pairs take turns in which mode goes first.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from orchestrator.commands.stream import StreamError, events
from orchestrator.models import resolve
from tests.bench.cpu import Others
from tests.e2e.service import up

PROMPTS: Final = "bench/prompts/edit.jsonl"
ANSWERED: Final = 120.0
"""Seconds without a word after which a service is taken to be stuck."""
SENTENCES: Final = (
    "Seven grey geese crossed the wet field and none of them looked back at the farm.",
    "Please leave the parcel with the neighbours at number nine if nobody opens the door.",
    "Tighten the upper screw first, then the lower one, and check that the wheel turns freely.",
    "Our ferry was late, the hotel was full, and yet it became the best day of the journey.",
)
WARM_UP: Final = [
    {
        "id": f"warm-{number}",
        "messages": [{"role": "user", "content": f"Repeat this sentence five times:\n\n{text}"}],
        "max_tokens": 100,
    }
    for number, text in enumerate(SENTENCES)
]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer, and what its last chunk said about speculation."""

    prompt: str
    text: str
    tokens: int
    seconds: float
    rounds: int
    drafted: int
    accepted: int


@dataclass(kw_only=True)
class Run:
    """All prompts once, against one service."""

    mode: str
    seconds: float = 0.0
    others: float = 0.0
    """Cores that were busy with something else meanwhile: how far the run can be trusted."""
    answers: list[Answer] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(answer.tokens for answer in self.answers)

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    @property
    def emitted(self) -> float:
        """Tokens a round, over all rounds."""
        return self.tokens / max(1, sum(answer.rounds for answer in self.answers))

    @property
    def acceptance(self) -> float:
        """Share of the drafted tokens that were accepted."""
        drafted = sum(answer.drafted for answer in self.answers)
        return sum(answer.accepted for answer in self.answers) / drafted if drafted else 0.0

    def differing(self, other: "Run") -> list[str]:
        """Prompts whose answers are not the same text in both. Both have answered all."""
        texts = {answer.prompt: answer.text for answer in other.answers}
        return [each.prompt for each in self.answers if texts.get(each.prompt) != each.text]

    @property
    def line(self) -> str:
        return (
            f"{self.mode:8} {len(self.answers):8} {self.tokens:7} {self.seconds:8.1f}"
            f" {self.speed:9.2f} {self.emitted:8.2f} {self.acceptance:8.0%} {self.others:7.2f}"
        )


HEAD: Final = (
    f"{'mode':8} {'answers':>8} {'tokens':>7} {'seconds':>8}"
    f" {'tokens/s':>9} {'emitted':>8} {'accepted':>8} {'others':>7}"
)


def ask(client: httpx.Client, prompt: dict[str, Any]) -> Answer:
    """Stream one answer to its end."""
    body = {
        "messages": prompt["messages"],
        "max_tokens": prompt["max_tokens"],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text, tokens = "", 0
    counts = {"rounds": 0, "drafted": 0, "accepted": 0}
    begun = time.perf_counter()
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.is_error:
            raise StreamError(response.read().decode())
        for event in events(response.iter_lines()):
            for choice in event["choices"]:
                text += choice["delta"].get("content", "")
                counts |= choice.get("draftmesh", {})
            if event["usage"]:
                tokens = event["usage"]["completion_tokens"]
    return Answer(
        prompt=prompt["id"],
        text=text,
        tokens=tokens,
        seconds=time.perf_counter() - begun,
        **counts,
    )


def run(mode: str, target: str, flags: Sequence[str], prompts: Sequence[dict[str, Any]]) -> Run:
    """Start a service, warm it up, measure it, end it."""
    result = Run(mode=mode)
    with (
        tempfile.TemporaryDirectory() as folder,
        up(target, Path(folder), "--dtype", "bfloat16", *flags) as service,
        httpx.Client(base_url=service.url, timeout=ANSWERED) as client,
    ):
        for prompt in WARM_UP:
            ask(client, prompt)
        others = Others(service)
        begun = time.perf_counter()
        for prompt in prompts:
            try:
                result.answers.append(ask(client, prompt))
            except (httpx.HTTPError, StreamError) as error:
                sys.stderr.write(f"{prompt['id']} was not answered: {error}\n")
        result.seconds = time.perf_counter() - begun
        result.others = others.seconds() / result.seconds
    sys.stdout.write(result.line + "\n")
    sys.stdout.flush()
    return result


def report(pairs: Sequence[tuple[Run, Run]]) -> dict[str, Any]:
    """Print what the runs say together; the same as data."""
    plain = median(one.speed for one, _ in pairs)
    drafted = median(two.speed for _, two in pairs)
    ratios = [two.speed / one.speed for one, two in pairs]
    differing = sorted({name for one, two in pairs for name in two.differing(one)})
    control = sorted({name for one, _ in pairs[1:] for name in one.differing(pairs[0][0])})
    listed = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    lines = [
        f"median tokens/s: plain {plain:.2f}, drafted {drafted:.2f};"
        f" ratio of medians {drafted / plain:.3f}",
        f"ratio of each pair: {listed};"
        f" median {median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}",
        f"drafted: {median(two.emitted for _, two in pairs):.2f} tokens emitted a round,"
        f" {median(two.acceptance for _, two in pairs):.1%} of drafts accepted",
        f"answers that differ: {len(differing)} of {len(pairs[0][0].answers)}"
        f" between the modes, {len(control)} between plain runs",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return {
        "plain": plain,
        "drafted": drafted,
        "ratio": drafted / plain,
        "ratios": ratios,
        "differing": differing,
        "differing_plain": control,
    }


def read(count: int) -> list[dict[str, Any]]:
    """The first prompts of the set; asking for more than there are is an error."""
    lines = files("orchestrator").joinpath(PROMPTS).read_text(encoding="utf-8").splitlines()
    if not 0 < count <= len(lines):
        raise SystemExit(f"there are {len(lines)} prompts, not {count}")
    return [json.loads(line) for line in lines[:count]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs")
    parser.add_argument("--prompts", type=int, default=128, help="the first so many of the set")
    parser.add_argument("--draft-length", type=int, default=8)
    parser.add_argument("--target", default="smollm2-135m", help="name or folder of the model")
    parser.add_argument("--json", type=Path, help="write everything there, without the texts")
    options = parser.parse_args(arguments)
    target = str(resolve(options.target, lambda *_: None))
    prompts = read(options.prompts)
    length = str(options.draft_length)
    flags = {
        "plain": ["--drafters", "0"],
        "drafted": ["--drafters", "2", "--method", "suffix", "--draft-length", length],
    }
    sys.stdout.write(f"{HEAD}\n")
    pairs: list[tuple[Run, Run]] = []
    for number in range(options.runs):
        order = ["plain", "drafted"] if number % 2 == 0 else ["drafted", "plain"]
        done = {mode: run(mode, target, flags[mode], prompts) for mode in order}
        pairs.append((done["plain"], done["drafted"]))
    if any(len(each.answers) != len(prompts) for pair in pairs for each in pair):
        raise SystemExit("not every prompt was answered in every run: the figures mean nothing")
    said = report(pairs)
    if options.json:
        runs = [
            asdict(each) | {"speed": each.speed, "answers": [_figures(a) for a in each.answers]}
            for pair in pairs
            for each in pair
        ]
        options.json.write_text(json.dumps({"summary": said, "runs": runs}, indent=1))


def _figures(answer: Answer) -> dict[str, Any]:
    return {name: value for name, value in asdict(answer).items() if name != "text"}


if __name__ == "__main__":
    main()
