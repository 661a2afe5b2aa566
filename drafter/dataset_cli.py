"""`drafter dataset generate`: a corpus of questions and answers, said by the target itself.

`drafter dataset answer`: its answers to prompts that are given, to validate with.

`drafter dataset join`: one corpus of several.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import torch
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from drafter.training.corpus import SETS, Corpus, CorpusError, join, read, runs
from drafter.training.generate import Settings, Source, batches
from drafter.training.target import Dense
from engine.errors import EngineError

USUAL: Final = Settings()


def main(argv: list[str]) -> None:
    """Run one subcommand; the exit code is 1 when it could not be done."""
    given = _arguments().parse_args(argv)
    try:
        given.run(given)
    except (CorpusError, EngineError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(1) from error


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("drafter dataset", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--target", type=Path, required=True, metavar="FOLDER")
    shared.add_argument("--out", type=Path, required=True, metavar="FILE.u16")
    shared.add_argument("--longest", type=int, default=USUAL.longest, help="tokens of an answer")
    shared.add_argument("--device", default="cpu", help="cpu, or one GPU: cuda")
    shared.add_argument("--threads", type=int, default=torch.get_num_threads())
    make = commands.add_parser(
        "generate", parents=[shared], help="begin a corpus, or go on with it"
    )
    make.add_argument("--tokens", type=int, default=3_000_000, help="stop at this size")
    make.add_argument("--seed", type=int, default=USUAL.seed)
    make.add_argument("--batch", type=int, default=USUAL.size, help="texts at once")
    make.add_argument(
        "--held-out",
        type=Path,
        nargs="*",
        default=[],
        metavar="FILE.jsonl",
        help="prompts that no text may share 20 tokens in a row with",
    )
    make.set_defaults(run=_generate)
    answer = commands.add_parser(
        "answer", parents=[shared], help="the likeliest answers to prompts, a set for each file"
    )
    answer.add_argument("--prompts", type=Path, nargs="+", required=True, metavar="SET.jsonl")
    answer.add_argument("--count", type=int, default=40, help="of each file, the first")
    answer.set_defaults(run=_answer)
    joined = commands.add_parser("join", help="one corpus of several that one target answered")
    joined.add_argument("parts", type=Path, nargs="+", metavar="PART.u16")
    joined.add_argument("--out", type=Path, required=True, metavar="FILE.u16")
    joined.set_defaults(run=lambda given: join(given.parts, given.out))
    return parser


def _generate(given: argparse.Namespace) -> None:
    torch.set_num_threads(given.threads)
    target = Dense(given.target, device=given.device)
    settings = Settings(given.seed, given.batch, given.longest)
    held_out: set[bytes] = set()
    source = Source(target, settings, held_out)
    for text in prompts(given.held_out):
        held_out |= runs(source.tokenizer.encode(text, add_special_tokens=False).ids)
    corpus = Corpus(given.out, source.header())
    last = read(given.out)[1][-settings.size :]
    with progress() as bar:
        task = bar.add_task("tokens", total=given.tokens, completed=corpus.header.whole)
        for _ in batches(source, corpus, last, lambda whole: whole >= given.tokens):
            bar.update(task, completed=corpus.header.whole)


def _answer(given: argparse.Namespace) -> None:
    torch.set_num_threads(given.threads)
    sets = {path.stem: prompts([path])[: given.count] for path in given.prompts}
    if strange := sorted(set(sets) - set(SETS)):
        raise CorpusError(f"no set is named {', '.join(strange)}, only {', '.join(SETS)}")
    source = Source(
        Dense(given.target, device=given.device), Settings(longest=given.longest), set()
    )
    corpus = Corpus(given.out, source.header())
    if corpus.header.batches:
        raise CorpusError(f"{given.out} holds answers already")
    for name, questions in sets.items():
        corpus.append(source.answers(name, questions))


def prompts(paths: Iterable[Path]) -> list[str]:
    """The texts of all messages in files of prompts, one JSON object a line."""
    texts: list[str] = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            try:
                texts += [message["content"] for message in json.loads(line)["messages"]]
            except (ValueError, KeyError, TypeError) as error:
                raise CorpusError(f"{path}, line {number} is no prompt: {error}") from error
    return texts


def progress() -> Progress:
    """A bar that says how long it still takes."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
