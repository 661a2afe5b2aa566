"""The commands that start something: `up`, `run` and `generate`; nothing heavy is imported before one of them does."""

# ruff: noqa: PLC0415

import sys
from typing import Annotated

import typer

from orchestrator.ending import end
from orchestrator.options import (
    ApiKey,
    Draft,
    Drafters,
    DraftLength,
    Dtype,
    File,
    GrpcPort,
    Host,
    InsecureMesh,
    Launcher,
    LogFormat,
    MeshKeys,
    Method,
    OtlpTraces,
    Overlap,
    Placement,
    Planner,
    Port,
    Prefill,
    SpecMetrics,
    SpeculativeConfig,
    Target,
    TensorParallel,
    Trust,
    Verifiers,
    example,
)


def register(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command(
        epilog=example(
            "up",
            "up --drafters 2 --method ngram --port 8001",
            "up --target ./llama --draft ./small-llama --detach",
            "up --prefill 1 --verifiers 1 --drafters 2",
        )
    )(up)
    app.command(
        epilog=example(
            "run verifier --bind tcp://0.0.0.0:7400 --dial tcp://drafters:7400",
            "run drafter --name drafter-far --bind tcp://127.0.0.1:7411",
            "run follower --rendezvous verifier-host:7500 --rank 1",
        )
    )(run)
    app.command(
        epilog=example(
            'generate "Write a haiku."',
            'generate "1, 2, 3," --raw --max-tokens 20 --url http://127.0.0.1:8000/v1',
        )
    )(generate)


def up(
    *,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach/--foreground",
            help="Return as soon as it serves, `down` ends it; or stay until it ends.",
        ),
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Keep spans here, for `orchestrator trace`.")
    ] = False,
    served_to: Annotated[int | None, typer.Option(hidden=True)] = None,
    target: Target = None,
    draft: Draft = None,
    trust_remote_code: Trust = None,
    drafters: Drafters = None,
    verifiers: Verifiers = None,
    tensor_parallel: TensorParallel = None,
    prefill: Prefill = None,
    dtype: Dtype = None,
    method: Method = None,
    draft_length: DraftLength = None,
    planner: Planner = None,
    overlap: Overlap = None,
    host: Host = None,
    port: Port = None,
    grpc_port: GrpcPort = None,
    api_key: ApiKey = None,
    per_request_spec_decode_metrics: SpecMetrics = None,
    speculative_config: SpeculativeConfig = None,
    otlp_traces_endpoint: OtlpTraces = None,
    log_format: LogFormat = None,
    mesh_keys: MeshKeys = None,
    insecure_mesh: InsecureMesh = None,
    launcher: Launcher = None,
    placement: Placement = None,
    config: File = None,
) -> None:
    """Start a service here and keep it until Ctrl-C, or in the background until `down`."""
    flags = {
        "target": target,
        "draft": draft,
        "trust_remote_code": trust_remote_code,
        "drafters": drafters,
        "verifiers": verifiers,
        "prefill": prefill,
        "dtype": dtype,
        "method": method,
        "draft_length": draft_length,
        "verifier": {"planner": {"name": planner}, "tensor_parallel": tensor_parallel},
        "overlap": overlap,
        "host": host,
        "port": port,
        "otlp_traces_endpoint": otlp_traces_endpoint,
        "log_format": log_format,
        "launcher": launcher,
        "ray": {"placement": placement},
        "mesh": {"keys": mesh_keys, "insecure": insecure_mesh},
        "front": {
            "api_key": api_key,
            "grpc_port": grpc_port,
            "per_request_spec_decode_metrics": per_request_spec_decode_metrics,
        },
    }

    def run() -> int:
        from orchestrator.commands.up import kept_here, up
        from orchestrator.settings import load
        from orchestrator.speculative import merged

        settings = load(merged(flags, speculative_config or ()), config)
        if detach:
            from orchestrator.commands.detach import up_detached

            return up_detached(sys.argv[1:])
        return up(kept_here(settings) if trace else settings, served_to)

    end(run)


def run(
    role: Annotated[str, typer.Argument(help="front, verifier, prefill, drafter or follower.")],
    *,
    name: Annotated[str, typer.Option(help="What this node is called; else as its host.")] = "",
    bind: Annotated[str, typer.Option(help="Its mesh address, as tcp://0.0.0.0:7400.")] = "",
    dial: Annotated[
        list[str] | None,
        typer.Option(help="Mesh address of peers; a host name may stand for several."),
    ] = None,
    rendezvous: Annotated[
        str,
        typer.Option(
            help="HOST:PORT where the ranks of a verifier meet that are on machines apart."
        ),
    ] = "",
    rank: Annotated[int, typer.Option(min=0, help="Which rank a follower is, from 1 on.")] = 0,
    config: File = None,
) -> None:
    """Become one process of a service, in a container or under a supervisor of its own."""

    def start() -> int:
        import socket

        from orchestrator.commands.run import run
        from orchestrator.launch.plan import Place
        from orchestrator.settings import load

        place = Place(name or socket.gethostname(), bind, tuple(dial or ()), rendezvous, rank)
        return run(role, place, load({}, config))

    end(start)


def generate(
    prompt: Annotated[str, typer.Argument(help="What to say to the model.")],
    *,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text, without chat.")] = False,
    max_tokens: Annotated[int, typer.Option(help="Output tokens at most.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="For sampling that repeats.")] = None,
    url: Annotated[str | None, typer.Option(help="Endpoint of a running service.")] = None,
    api_key: ApiKey = None,
    target: Target = None,
    draft: Draft = None,
    trust_remote_code: Trust = None,
    drafters: Drafters = None,
    dtype: Dtype = None,
    method: Method = None,
    draft_length: DraftLength = None,
    planner: Planner = None,
    config: File = None,
) -> None:
    """Stream an answer from a running service, else from one that is started for it."""
    flags = {
        "target": target,
        "draft": draft,
        "trust_remote_code": trust_remote_code,
        "drafters": drafters,
        "dtype": dtype,
        "method": method,
        "draft_length": draft_length,
        "verifier": {"planner": {"name": planner}},
    }

    def run() -> int:
        from orchestrator.commands.generate import Wish, ask_new, ask_running
        from orchestrator.settings import given, load

        wish = Wish(
            prompt,
            raw=raw,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            api_key=api_key,
        )
        own = bool(given(flags)) or config is not None
        answered = None if own and not url else ask_running(wish, url)
        return ask_new(wish, load(flags, config)) if answered is None else answered

    end(run)
