"""The commands that need no service: models, configuration, keys, what others run, and what drafting pays."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.ending import end
from orchestrator.options import ApiKey, File, KeyFolder, Output, example

models_app = typer.Typer(help="Models by name.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration.", no_args_is_help=True)
render_app = typer.Typer(help="A service as others run it.", no_args_is_help=True)
keys_app = typer.Typer(help="Who may speak on the mesh.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.add_typer(models_app, name="models")
    app.add_typer(config_app, name="config")
    app.add_typer(keys_app, name="keys")
    app.add_typer(render_app, name="render")
    app.command(epilog=example("economics", "economics --acceptance 0.8 --drafts 5"))(economics)


@models_app.command("list", epilog=example("models list"))
def models_list(output: Output = "text") -> None:
    """What each name means, and whether it is here."""

    def run() -> int:
        from orchestrator.commands.models import listed

        listed(as_json=output == "json")
        return 0

    end(run)


@models_app.command("pull", epilog=example("models pull smollm2-135m"))
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


@keys_app.command("new", epilog=example("keys new", "keys new --folder ./keys"))
def keys_new(folder: KeyFolder = None) -> None:
    """Make this node's key pair, readable by you alone."""

    def run() -> int:
        from orchestrator.commands.keys import new

        return new(folder)

    end(run)


@keys_app.command("allow", epilog=example("keys allow drafter-far far/public.key"))
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


@keys_app.command("secret", epilog=example("keys secret draftmesh-mesh | kubectl apply -f -"))
def keys_secret(
    name: Annotated[str, typer.Argument(help="What the Secret is called.")] = "draftmesh-mesh",
    folder: KeyFolder = None,
) -> None:
    """This folder of keys as a Kubernetes Secret, to stdout: for `kubectl apply -f -`."""

    def run() -> int:
        from orchestrator.commands.keys import secret

        return secret(name, folder)

    end(run)


@keys_app.command("list", epilog=example("keys list"))
def keys_list(folder: KeyFolder = None, output: Output = "text") -> None:
    """Whose keys are let in."""

    def run() -> int:
        from orchestrator.commands.keys import listed

        return listed(folder, as_json=output == "json")

    end(run)


@render_app.command(
    "k8s", epilog=example("render k8s > values.yaml", "render k8s --config prod.yaml")
)
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
