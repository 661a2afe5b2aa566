"""What is said about a trained head: a page for people, the same facts for programs, and the curve of its training."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drafter.training.rounds import Acceptance, whole

PARTS = ("config.json", "model.safetensors")
PLACES = ("target", "dataset")


def facts(
    run: Mapping[str, Any], found: Mapping[str, Acceptance], guesses: int, more: Mapping[str, Any]
) -> dict[str, Any]:
    """All that the card tells."""
    sets = {name: _said(each) for name, each in sorted(found.items())}
    return {
        "run": {name: Path(str(it)).name if name in PLACES else it for name, it in run.items()},
        "guesses": guesses,
        "acceptance": sets | {"all": _said(whole(found.values(), guesses))},
        **more,
    }


def _said(found: Acceptance) -> dict[str, Any]:
    return {
        "mean_emitted": round(found.mean_emitted, 3),
        "by_position": [round(each, 3) for each in found.by_position],
        "rounds": found.rounds,
    }


def page(said: Mapping[str, Any], hashes: Mapping[str, str]) -> str:
    """The card in Markdown."""
    run, guesses = said["run"], said["guesses"]
    lines = [
        f"# {run['method']} for {Path(run['target']).name}",
        "",
        "A draft head trained by `drafter train` and written by `drafter export`; `docs/training.md` tells how.",
        "",
        f"Mean emitted a round of {guesses} guesses, and how often a guess is accepted when all before it were, on "
        "greedy answers that were not trained on. Sets named `bench-...` are the benchmark's prompts, "
        "`held-out-...` are of the corpus.",
        "",
        "| set | rounds | mean emitted | " + " | ".join(map(str, range(1, guesses + 1))) + " |",
        "| --- |" + " --- |" * (guesses + 2),
    ]
    for name, each in said["acceptance"].items():
        places = " | ".join(f"{chance:.2f}" for chance in each["by_position"])
        lines.append(f"| {name} | {each['rounds']} | {each['mean_emitted']:.3f} | {places} |")
    lines += ["", "| fact | |", "| --- | --- |"]
    for name, value in (*run.items(), *said.items()):
        if name not in {"run", "acceptance"}:
            lines.append(f"| {name} | {value} |")
    lines += ["", "| file | sha256 |", "| --- | --- |"]
    lines += [f"| {name} | `{digest}` |" for name, digest in hashes.items()]
    return "\n".join(lines) + "\n"


def write(folder: Path, said: Mapping[str, Any]) -> None:
    """`README.md` and `card.json` beside the weights."""
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in PARTS}
    (folder / "card.json").write_text(json.dumps({**said, "sha256": hashes}, indent=1) + "\n")
    (folder / "README.md").write_text(page(said, hashes))


def plot(logs: Mapping[str, Sequence[Mapping[str, Any]]], file: Path) -> None:
    """Mean emitted over tokens seen, a line for each run."""
    import matplotlib  # noqa: PLC0415  # only who plots needs it

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, lines in logs.items():
        axes.plot(
            [line["tokens"] / 1e6 for line in lines],
            [line["mean_emitted"] for line in lines],
            label=name,
        )
    axes.set_xlabel("million tokens seen")
    axes.set_ylabel("mean emitted a round, held out")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, bbox_inches="tight")
    pyplot.close(figure)


def log(folder: Path) -> list[dict[str, Any]]:
    """The validations of a run, in their order; what a killed run did twice counts once."""
    place = folder / "log.jsonl"
    if not place.is_file():
        return []
    lines: Iterable[dict[str, Any]] = map(json.loads, place.read_text().splitlines())
    return [line for _, line in sorted({line["step"]: line for line in lines}.items())]
