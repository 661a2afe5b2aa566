"""The command line. Nothing heavy is imported before a command runs: `--help` must answer at once."""

# ruff: noqa: PLC0415

import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.bench.cli import app as bench_app
from orchestrator.dotted import spelled
from orchestrator.ending import EXIT_CODES, end
from orchestrator.operate import Output, example, register

app = typer.Typer(
    help="Speculative decoding over a mesh: a verifier and its drafters as separate engines.",
    epilog="\n".join(
        ["\b", "Exit codes:", *(f"  {code:<4} {text}" for code, text in EXIT_CODES.items())]
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
models_app = typer.Typer(help="Models by name.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration.", no_args_is_help=True)
render_app = typer.Typer(help="A service as others run it.", no_args_is_help=True)
keys_app = typer.Typer(help="Who may speak on the mesh.", no_args_is_help=True)
app.add_typer(models_app, name="models")
app.add_typer(config_app, name="config")
app.add_typer(keys_app, name="keys")
app.add_typer(render_app, name="render")
app.add_typer(bench_app, name="bench")
register(app)

Target = Annotated[str | None, typer.Option(help="Name, folder or hub id of the model to serve.")]
Draft = Annotated[str | None, typer.Option(help="Name, folder or hub id of the draft model.")]
Trust = Annotated[
    bool | None,
    typer.Option("--trust-remote-code", help="Let code run that came with target or draft model."),
]
Drafters = Annotated[int | None, typer.Option(help="Drafter processes.")]
Verifiers = Annotated[int | None, typer.Option(help="Verifier processes.")]
Prefill = Annotated[
    int | None, typer.Option(help="Processes that compute long prompts for verifiers.")
]
Dtype = Annotated[str | None, typer.Option(help="float32 or bfloat16.")]
Method = Annotated[str | None, typer.Option(help="Drafting method.")]
DraftLength = Annotated[int | None, typer.Option(help="Draft tokens verified at most a round.")]
Planner = Annotated[
    str | None, typer.Option(help="What decides how many draft tokens are verified.")
]
Overlap = Annotated[
    str | None, typer.Option(help="on: drafters run ahead; off: draft, verify, draft, in turn.")
]
Host = Annotated[str | None, typer.Option(help="Where clients are answered.")]
Port = Annotated[int | None, typer.Option(help="Port of the HTTP endpoint; 0 picks one.")]
GrpcPort = Annotated[
    int | None, typer.Option(help="Port of the gRPC endpoint; 0 picks one; else there is none.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(help="What clients must bring; better in DRAFTMESH_FRONT__API_KEY than here."),
]
SpecMetrics = Annotated[
    str | None,
    typer.Option(help="none, summary or detailed: what answers tell of speculation."),
]
SpeculativeConfig = Annotated[
    list[str] | None,
    typer.Option(help="As vLLM takes it: a JSON object, or KEY after a dot; see docs/api.md."),
]
OtlpTraces = Annotated[
    str | None, typer.Option(help="URL of an OpenTelemetry collector for traces.")
]
Launcher = Annotated[str | None, typer.Option(help="Who starts the processes: local or ray.")]
Placement = Annotated[
    str | None, typer.Option(help="On a Ray cluster: spread, pack or strict-spread.")
]
MeshKeys = Annotated[
    Path | None, typer.Option(help="Folder of keys: only nodes that it allows get in.")
]
InsecureMesh = Annotated[
    bool | None, typer.Option("--insecure-mesh", help="Let anybody in who reaches the mesh.")
]
KeyFolder = Annotated[
    Path | None, typer.Option("--folder", help="Folder of keys; else draftmesh/keys of the user.")
]
File = Annotated[Path | None, typer.Option("--config", help="YAML file; else ./draftmesh.yaml.")]


@app.command(
    epilog=example(
        "up",
        "up --drafters 2 --method ngram --port 8001",
        "up --target ./llama --draft ./small-llama --detach",
        "up --prefill 1 --verifiers 1 --drafters 2",
    )
)
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
        "verifier": {"planner": {"name": planner}},
        "overlap": overlap,
        "host": host,
        "port": port,
        "otlp_traces_endpoint": otlp_traces_endpoint,
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


@app.command()
def run(
    role: Annotated[str, typer.Argument(help="front, verifier, prefill or drafter.")],
    *,
    name: Annotated[str, typer.Option(help="What this node is called; else as its host.")] = "",
    bind: Annotated[str, typer.Option(help="Its mesh address, as tcp://0.0.0.0:7400.")] = "",
    dial: Annotated[
        list[str] | None,
        typer.Option(help="Mesh address of peers; a host name may stand for several."),
    ] = None,
    config: File = None,
) -> None:
    """Become one process of a service, in a container or under a supervisor of its own."""

    def start() -> int:
        import socket

        from orchestrator.commands.run import run
        from orchestrator.launch.plan import Place
        from orchestrator.settings import load

        place = Place(name or socket.gethostname(), bind, tuple(dial or ()))
        return run(role, place, load({}, config))

    end(start)


@app.command(
    epilog=example(
        'generate "Write a haiku."',
        'generate "1, 2, 3," --raw --max-tokens 20 --url http://127.0.0.1:8000/v1',
    )
)
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


@models_app.command("list")
def models_list() -> None:
    """What each name means, and whether it is here."""

    def run() -> int:
        from orchestrator.commands.models import listed

        listed()
        return 0

    end(run)


@models_app.command("pull")
def models_pull(name: Annotated[str, typer.Argument(help="A name from `models list`.")]) -> None:
    """Fetch a model now."""

    def run() -> int:
        from orchestrator.commands.models import pull

        pull(name)
        return 0

    end(run)


@config_app.command(
    "show", epilog=example("config show", "config show --config prod.yaml --output json")
)
def config_show(*, config: File = None, output: Output = "text") -> None:
    """The merged configuration as YAML, and where each value comes from."""

    def run() -> int:
        from orchestrator.commands.configuration import show

        return show(config, as_json=output == "json")

    end(run)


@config_app.command("schema", epilog=example("config schema > draftmesh.schema.json"))
def config_schema() -> None:
    """What a configuration file may hold, as JSON Schema."""

    def run() -> int:
        from orchestrator.commands.configuration import schema

        return schema()

    end(run)


@keys_app.command("new")
def keys_new(folder: KeyFolder = None) -> None:
    """Make this node's key pair, readable by you alone."""

    def run() -> int:
        from orchestrator.commands.keys import new

        return new(folder)

    end(run)


@keys_app.command("allow")
def keys_allow(
    name: Annotated[str, typer.Argument(help="What the other node is called here.")],
    key: Annotated[str, typer.Argument(help="Its public key, or the file that holds it.")],
    folder: KeyFolder = None,
) -> None:
    """Let another node in."""

    def run() -> int:
        from orchestrator.commands.keys import allow

        return allow(name, key, folder)

    end(run)


@keys_app.command("secret")
def keys_secret(
    name: Annotated[str, typer.Argument(help="What the Secret is called.")] = "draftmesh-mesh",
    folder: KeyFolder = None,
) -> None:
    """This folder of keys as a Kubernetes Secret, to stdout: for `kubectl apply -f -`."""

    def run() -> int:
        from orchestrator.commands.keys import secret

        return secret(name, folder)

    end(run)


@keys_app.command("list")
def keys_list(folder: KeyFolder = None) -> None:
    """Whose keys are let in."""

    def run() -> int:
        from orchestrator.commands.keys import listed

        return listed(folder)

    end(run)


@render_app.command("k8s")
def render_k8s(
    *,
    url: Annotated[str | None, typer.Option(help="Endpoint of a running service.")] = None,
    api_key: ApiKey = None,
    config: File = None,
) -> None:
    """Values for the Helm chart, of a running service or of a configuration, to stdout."""

    def run() -> int:
        from orchestrator.commands.render import k8s

        return k8s(url, api_key, config)

    end(run)


@app.command()
def economics(
    *,
    acceptance: Annotated[
        float, typer.Option(min=0, max=1, help="How often a draft is kept.")
    ] = 0.7,
    ratio: Annotated[float, typer.Option(min=0, help="A draft step, in target steps.")] = 0.165,
    drafts: Annotated[int, typer.Option(min=0, max=256, help="Draft tokens a round.")] = 3,
    saturation: Annotated[
        float, typer.Option(min=1, help="Tokens of a step up to which it costs the same.")
    ] = 295.0,
    table: Annotated[
        Path | None, typer.Option(help="A cost table of `verifier profile`, instead of that.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw into this folder.")] = None,
) -> None:
    """When speculation pays: speedup, break-even, and chain against parallel drafting."""

    def run() -> int:
        from orchestrator.commands.economics import economics as tell

        return tell(
            acceptance=acceptance,
            ratio=ratio,
            drafts=drafts,
            saturation=saturation,
            table=table,
            plot=plot,
        )

    end(run)


def main() -> None:
    """The console script `orchestrator`."""
    app(args=spelled(sys.argv[1:]), prog_name="orchestrator")


if __name__ == "__main__":
    main()
