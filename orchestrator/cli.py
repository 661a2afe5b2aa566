"""The command line. Nothing heavy is imported before a command runs: `--help` must answer at once."""

import sys

import typer

from orchestrator import begin, manage, operate
from orchestrator.bench.cli import app as bench_app
from orchestrator.dotted import spelled
from orchestrator.ending import EXIT_CODES

app = typer.Typer(
    help="Speculative decoding over a mesh: a verifier and its drafters as separate engines.",
    epilog="\n".join(
        ["\b", "Exit codes:", *(f"  {code:<4} {text}" for code, text in EXIT_CODES.items())]
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
begin.register(app)
operate.register(app)
manage.register(app)
app.add_typer(bench_app, name="bench")


def main() -> None:
    """The console script `orchestrator`."""
    app(args=spelled(sys.argv[1:]), prog_name="orchestrator")


if __name__ == "__main__":
    main()
