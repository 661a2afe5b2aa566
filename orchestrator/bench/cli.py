"""The flags of `orchestrator bench`. Nothing heavy is imported before a command runs."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.ending import end
from orchestrator.options import example

app = typer.Typer(
    help="Measure the service, alone or beside others.",
    epilog=example("bench --concurrency 1,8 --prompts chat", "bench --json figures.json --runs 3"),
    invoke_without_command=True,
    rich_markup_mode=None,
)

Concurrency = Annotated[str, typer.Option(help="Requests at once, a list.")]
Prompts = Annotated[str, typer.Option(help="chat, code, math, edit, or a file.")]
Count = Annotated[int | None, typer.Option(min=1, help="Only the first so many prompts.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Output tokens, where a prompt does not say.")]
Runs = Annotated[int, typer.Option(min=1, help="Runs of each system.")]
Target = Annotated[str | None, typer.Option(help="Name or folder of the model to serve.")]
Draft = Annotated[str | None, typer.Option(help="Name or folder of the draft model.")]
Drafters = Annotated[int | None, typer.Option(help="Drafter processes.")]
Dtype = Annotated[str | None, typer.Option(help="float32 or bfloat16.")]
DraftLength = Annotated[int | None, typer.Option(help="Draft tokens verified at most a round.")]
Json = Annotated[Path | None, typer.Option(help="Write the figures there.")]
Log = Annotated[Path | None, typer.Option(help="Append every run there as soon as it is done.")]
Peers = Annotated[
    Path | None, typer.Option(help="Folder with the environments of peers; else the cache.")
]
File = Annotated[Path | None, typer.Option("--config", help="YAML file; else ./draftmesh.yaml.")]


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(f"{text!r} is no list of numbers, such as 1,8,32")
    return numbers


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _switch(word: str) -> bool:
    if word not in {"on", "off"}:
        raise typer.BadParameter(f"--overlap is on, off or on,off, not {word!r}")
    return word == "on"


@app.callback()
def bench(
    context: typer.Context,
    *,
    concurrency: Concurrency = "1,4,8,16,32",
    compare: Annotated[
        str, typer.Option(help="plain, colocated, transformers, vllm-cpu, vllm-cpu-ngram: a list.")
    ] = "plain",
    prompts: Prompts = "chat",
    count: Count = None,
    max_tokens: MaxTokens = 64,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Every answer has all its tokens.")
    ] = False,
    runs: Runs = 3,
    target: Target = None,
    draft: Draft = None,
    drafters: Drafters = None,
    dtype: Dtype = None,
    method: Annotated[str | None, typer.Option(help="Drafting methods, a list.")] = None,
    planner: Annotated[str | None, typer.Option(help="Planners, a list.")] = None,
    draft_length: DraftLength = None,
    overlap: Annotated[str | None, typer.Option(help="on, off, or both of them: a list.")] = None,
    json: Json = None,
    log: Log = None,
    plot: Annotated[Path | None, typer.Option(help="Draw into this folder.")] = None,
    peers: Peers = None,
    record: Annotated[
        Path | None, typer.Option(help="Append rounds there, for `bench planner`.")
    ] = None,
    config: File = None,
) -> None:
    """Drive every system with the same prompts in turn, and say what came of it."""
    if context.invoked_subcommand is not None:
        return
    concurrencies = _numbers(concurrency)

    def run() -> int:
        from orchestrator.bench.client import Asking
        from orchestrator.bench.command import Asked, Wish, bench
        from orchestrator.settings import load

        flags = {
            "target": target,
            "draft": draft,
            "drafters": drafters,
            "dtype": dtype,
            "draft_length": draft_length,
            "verifier": {"planner": {"trace": record and record.absolute()}},
        }
        asked = Asked(
            prompts=prompts,
            count=count,
            concurrencies=concurrencies,
            runs=runs,
            asking=Asking(max_tokens=max_tokens, temperature=temperature, ignore_eos=ignore_eos),
            log=log,
        )
        wish = Wish(
            compare=_names(compare),
            methods=_names(method),
            planners=_names(planner),
            overlaps=tuple(_switch(each) for each in _names(overlap)),
            json=json,
            plot=plot,
            peers=peers,
        )
        return bench(asked, wish, load(flags, config))

    end(run)


@app.command(epilog=example("bench threads --runs 3"))
def threads(
    *,
    concurrency: Concurrency = "1,8",
    prompts: Prompts = "chat",
    count: Count = 16,
    max_tokens: MaxTokens = 64,
    runs: Runs = 3,
    target: Target = None,
    draft: Draft = None,
    drafters: Drafters = None,
    dtype: Dtype = None,
    method: Annotated[str | None, typer.Option(help="Drafting method.")] = None,
    draft_length: DraftLength = None,
    json: Json = None,
    log: Log = None,
    config: File = None,
) -> None:
    """Numbers of threads, how they wait and where they run, against speed."""
    concurrencies = _numbers(concurrency)

    def run() -> int:
        from orchestrator.bench.client import Asking
        from orchestrator.bench.command import Asked, threads
        from orchestrator.settings import load

        flags = {
            "target": target,
            "draft": draft,
            "drafters": drafters,
            "dtype": dtype,
            "method": method,
            "draft_length": draft_length,
        }
        asked = Asked(
            prompts=prompts,
            count=count,
            concurrencies=concurrencies,
            runs=runs,
            asking=Asking(max_tokens=max_tokens),
            log=log,
        )
        return threads(asked, json, load(flags, config))

    end(run)


@app.command(epilog=example("bench mesh --json mesh.json"))
def mesh(
    *,
    rounds: Annotated[int, typer.Option(min=100, help="Round trips that are measured.")] = 2000,
    mirrors: Annotated[str, typer.Option(help="Mirrors of one drafter, a list.")] = "10,100,1000",
    json: Json = None,
) -> None:
    """The mesh alone: round trip, throughput, many mirrors."""
    counts = _numbers(mirrors)

    def run() -> int:
        from orchestrator.bench.command import mesh

        return mesh(rounds, counts, json)

    end(run)


@app.command(
    "planner", epilog=example("bench planner rounds.jsonl --concurrency 1,8,32 --plot pictures")
)
def replay_planners(
    trace: Annotated[Path, typer.Argument(help="What `bench --record` wrote.")],
    *,
    concurrency: Concurrency = "1,8,32",
    json: Json = None,
    plot: Annotated[Path | None, typer.Option(help="Draw into this folder.")] = None,
) -> None:
    """Recorded rounds under every planner, beside the best lengths there were."""
    concurrencies = _numbers(concurrency)

    def run() -> int:
        from orchestrator.bench.planners import planner

        return planner(trace, concurrencies, json, plot)

    end(run)


@app.command(epilog=example("bench rtt", "bench rtt --trips 0,1,20 --runs 1"))
def rtt(
    *,
    method: Annotated[str, typer.Option(help="Drafting methods, a list.")] = "suffix,ngram",
    trips: Annotated[
        str, typer.Option(help="Round-trip times in milliseconds, a list.")
    ] = "0,0.2,1,5,20,50",
    prompts: Prompts = "chat",
    count: Count = 8,
    max_tokens: MaxTokens = 64,
    runs: Runs = 3,
    target: Target = None,
    draft: Draft = None,
    dtype: Dtype = None,
    draft_length: DraftLength = None,
    config: File = None,
) -> None:
    """Speed and acceptance against the round-trip time between verifier and drafter."""

    def run() -> int:
        from orchestrator.bench.command import rtt
        from orchestrator.settings import load

        flags = {"target": target, "draft": draft, "dtype": dtype, "draft_length": draft_length}
        seconds = tuple(float(each) / 1e3 for each in trips.split(","))
        return rtt(
            load(flags, config),
            _names(method),
            seconds,
            prompts=prompts,
            count=count or 8,
            max_tokens=max_tokens,
            runs=runs,
        )

    end(run)


@app.command(epilog=example("bench kv --tokens 4096 --runs 15"))
def kv(
    *,
    tokens: Annotated[int, typer.Option(min=300, help="Tokens of the prompt that moves.")] = 4096,
    runs: Annotated[int, typer.Option(min=1, help="Prompts moved by each channel.")] = 15,
    json: Json = None,
) -> None:
    """Moving KV pages between processes: every channel beside a copy and a bare stream."""

    def run() -> int:
        from orchestrator.bench.command import kv

        return kv(tokens, runs, json)

    end(run)


@app.command(epilog=example("bench split --chunks 64,128,256 --runs 3"))
def split(
    *,
    chunks: Annotated[
        str, typer.Option(help="Tokens a forward without prefill nodes, a list.")
    ] = "64,128,256",
    streams: Annotated[int, typer.Option(min=1, help="Answers that stream meanwhile.")] = 2,
    longs: Annotated[int, typer.Option(min=1, help="Long prompts, one after the other.")] = 4,
    tokens: Annotated[int, typer.Option(min=300, help="Tokens of a long prompt.")] = 1500,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each service.")] = 1,
    target: Target = None,
    drafters: Drafters = 0,
    dtype: Dtype = None,
    json: Json = None,
    config: File = None,
) -> None:
    """Time between tokens beside long prompts: a prefill node against chunks of several sizes."""
    sizes = _numbers(chunks)

    def run() -> int:
        from orchestrator.bench.command import split
        from orchestrator.settings import load

        flags = {"target": target, "drafters": drafters, "dtype": dtype}
        asked = {"streams": streams, "longs": longs, "tokens": tokens}
        return split(load(flags, config), sizes, runs, json, **asked)

    end(run)


@app.command(epilog=example("bench burst --planner budget,schedule --prompts edit"))
def burst(
    *,
    crowd: Annotated[int, typer.Option(min=1, help="Short answers at once.")] = 32,
    seconds: Annotated[float, typer.Option(min=1, help="How long they keep coming.")] = 10.0,
    calm: Annotated[float, typer.Option(min=4, help="Seconds before it, and after it.")] = 20.0,
    short: Annotated[int, typer.Option(min=1, help="Tokens of a short answer.")] = 24,
    long: Annotated[int, typer.Option(min=1, help="Tokens of the others.")] = 256,
    prompts: Prompts = "chat",
    compare: Annotated[str, typer.Option(help="plain, colocated: a list.")] = "plain",
    method: Annotated[str | None, typer.Option(help="Drafting methods, a list.")] = None,
    planner: Annotated[str | None, typer.Option(help="Planners, a list.")] = None,
    draft_length: DraftLength = None,
    target: Target = None,
    drafters: Drafters = None,
    dtype: Dtype = None,
    json: Json = None,
    config: File = None,
) -> None:
    """Two answers that stream, a crowd for a while, and the two again: do drafts come back?"""

    def run() -> int:
        from orchestrator.bench.command import Wish, burst
        from orchestrator.settings import load

        flags = {
            "target": target,
            "drafters": drafters,
            "dtype": dtype,
            "draft_length": draft_length,
        }
        told = {"crowd": crowd, "seconds": seconds, "calm": calm, "short": short, "long": long}
        wish = Wish(compare=_names(compare), methods=_names(method), planners=_names(planner))
        return burst(wish, prompts, json, load(flags, config), **told)

    end(run)


@app.command("peers", epilog=example("bench peers"))
def build_peers(peers: Peers = None) -> None:
    """Build the systems that others made, each in an environment of its own."""

    def run() -> int:
        from orchestrator.bench.command import peers as build

        return build(peers)

    end(run)
