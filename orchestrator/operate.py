"""The commands for a service that runs; nothing heavy is imported before one of them does."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.ending import end
from orchestrator.options import Output, ServiceName, Wait, example


def register(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command(epilog=example("down", "down --now", "down --all --wait 60"))(down)
    app.command(epilog=example("scale --drafters 4", "scale --drafters 0 --wait 60"))(scale)
    app.command(epilog=example("drain drafter-1"))(drain)
    app.command(
        "register",
        epilog=example("register drafter drafter-far tcp://10.0.0.7:7400", "drain drafter-far"),
    )(register_node)
    app.command(epilog=example("status", "status --json | jq '.nodes[].state'"))(status)
    app.command(epilog=example("top", "top --interval 5 --count 3 > numbers.txt"))(top)
    app.command(
        epilog=example(
            "trace", "trace spans.jsonl --svg last.svg", "trace --id 4bf92f --html it.html"
        )
    )(trace)
    app.command(epilog=example("logs", "logs -f verifier", "logs drafter-0 front -n 20"))(logs)
    app.command(epilog=example("doctor", "doctor --output json"))(doctor)
    app.command(epilog=example("version", "version --output json"))(version)


def down(
    *,
    service: ServiceName = None,
    every: Annotated[bool, typer.Option("--all", help="All services of this user.")] = False,
    now: Annotated[bool, typer.Option("--now", help="At once: running answers are lost.")] = False,
    wait: Wait = 120.0,
) -> None:
    """End a service: answers that run are finished first, within the bounds of the configuration."""

    def run() -> int:
        from orchestrator.commands.services import down

        return down(service, every=every, now=now, seconds=wait)

    end(run)


def scale(
    *,
    drafters: Annotated[int, typer.Option(help="Drafter processes from now on.")],
    service: ServiceName = None,
    wait: Wait = 120.0,
    output: Output = "text",
) -> None:
    """Change how many drafters a running service has; those that are too many finish what they have first."""

    def run() -> int:
        from orchestrator.commands.scale import scale

        return scale(service, drafters, seconds=wait, as_json=output == "json")

    end(run)


def drain(
    node: Annotated[str, typer.Argument(help="Its name; see `status`.")],
    *,
    service: ServiceName = None,
    wait: Wait = 120.0,
    output: Output = "text",
) -> None:
    """Let one process of a service finish what it has and leave for good."""

    def run() -> int:
        from orchestrator.commands.scale import drain

        return drain(service, node, seconds=wait, as_json=output == "json")

    end(run)


def register_node(
    role: Annotated[str, typer.Argument(help="drafter or verifier.")],
    node: Annotated[str, typer.Argument(help="What it is called.")],
    address: Annotated[str, typer.Argument(help="Where the mesh dials it.")],
    *,
    service: ServiceName = None,
    output: Output = "text",
) -> None:
    """Let a node take part that somebody else keeps running (`run`), until it is drained."""

    def run() -> int:
        from orchestrator.commands.scale import register
        from orchestrator.rpc.draftmesh_pb2 import RegisterRequest

        asked = RegisterRequest(role=role, node_id=node, address=address)
        return register(service, asked, seconds=10.0, as_json=output == "json")

    end(run)


def status(
    *,
    service: ServiceName = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
    output: Output = "text",
) -> None:
    """What every process of a service is, does, and how far it is away."""

    def run() -> int:
        from orchestrator.commands.status import status

        return status(service, as_json=as_json or output == "json")

    end(run)


def top(
    *,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 1.0,
    count: Annotated[int | None, typer.Option(min=1, help="Looks; else until Ctrl-C.")] = None,
    service: ServiceName = None,
    output: Output = "text",
) -> None:
    """What a service does now: tokens a second, acceptance, round trips. Where no terminal is, one look, plain."""

    def run() -> int:
        from orchestrator.commands.top import top

        return top(service, interval=interval, count=count, as_json=output == "json")

    end(run)


def trace(
    source: Annotated[
        Path | None,
        typer.Argument(help="File or folder of OTLP's JSON lines; else what `up --trace` keeps."),
    ] = None,
    *,
    last: Annotated[  # noqa: ARG001  # what happens anyway, for those who say it
        bool, typer.Option("--last", help="The last whole request, unless --id says another.")
    ] = True,
    number: Annotated[str, typer.Option("--id", help="Beginning of a trace's number.")] = "",
    svg: Annotated[Path | None, typer.Option(help="Draw into this file instead.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page instead.")] = None,
    service: ServiceName = None,
    output: Output = "text",
) -> None:
    """One request over all processes as a waterfall: who worked when, and what overlapped."""

    def run() -> int:
        from orchestrator.commands.trace import trace

        return trace(source, service, number, pictures=(svg, html), as_json=output == "json")

    end(run)


def logs(
    which: Annotated[
        list[str] | None, typer.Argument(metavar="[ROLE|NODE]...", help="Whose; else everybody's.")
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Until the service ends.")] = False,
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", min=0, help="The last ones.")
    ] = None,
    service: ServiceName = None,
) -> None:
    """What the processes wrote, in the order of time; without a service, the logs of the last that failed."""

    def run() -> int:
        from orchestrator.commands.logs import logs

        return logs(service, which or (), follow=follow, lines=lines)

    end(run)


def doctor(
    *,
    target: Annotated[str | None, typer.Option(help="Model to be served.")] = None,
    draft: Annotated[str | None, typer.Option(help="Draft model.")] = None,
    config: Annotated[str | None, typer.Option("--config", help="YAML file.")] = None,
    output: Output = "text",
) -> None:
    """Check whether a service could run here, and what keeps those that do from being well."""

    def run() -> int:
        from pathlib import Path

        from orchestrator.commands.doctor import doctor
        from orchestrator.settings import load

        merged = load({"target": target, "draft": draft}, Path(config) if config else None)
        return doctor(merged, as_json=output == "json")

    end(run)


def version(*, output: Output = "text") -> None:
    """Print the version."""

    def run() -> int:
        from orchestrator.commands.version import version

        return version(as_json=output == "json")

    end(run)
