"""What several commands can be told, each with its help."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Target = Annotated[str | None, typer.Option(help="Name, folder or hub id of the model to serve.")]
Draft = Annotated[str | None, typer.Option(help="Name, folder or hub id of the draft model.")]
Trust = Annotated[
    bool | None,
    typer.Option("--trust-remote-code", help="Let code run that came with target or draft model."),
]
Drafters = Annotated[int | None, typer.Option(help="Drafter processes.")]
Verifiers = Annotated[int | None, typer.Option(help="Verifier processes.")]
TensorParallel = Annotated[
    int | None, typer.Option(help="Processes that share the target of a verifier, each some heads.")
]
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
LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option(help="How the processes log; json: an object a line, for programs."),
]
Output = Annotated[
    Literal["text", "json"], typer.Option("--output", help="json: for programs, on stdout.")
]
ServiceName = Annotated[
    str | None, typer.Option("--service", help="Which, where several run; see `status`.")
]
Wait = Annotated[float, typer.Option(min=0.1, help="Seconds until giving up.")]


def example(*lines: str) -> str:
    """The end of a help page, line by line as it stands here."""
    return "\n".join(["\b", "Examples:", *(f"  orchestrator {line}" for line in lines)])
