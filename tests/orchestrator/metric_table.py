"""The table of metrics as the docs show it: `python -m tests.orchestrator.metric_table` writes it there."""

from pathlib import Path
from typing import Final

from orchestrator.front.metric_table import METRICS

FILE: Final = Path(__file__).parents[2] / "docs" / "observability.md"
BEGIN: Final = "<!-- metrics: written by tests/orchestrator/metric_table.py -->"
END: Final = "<!-- end of metrics -->"


def table() -> str:
    lines = ["| name | kind | of | divided by | what it says |", "| --- | --- | --- | --- | --- |"]
    for each in METRICS:
        label = f"`{each.label}`" if each.label else ""
        role = each.role or "every node"
        lines.append(f"| `{each.shown}` | {each.kind} | {role} | {label} | {each.text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = FILE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    FILE.write_text(f"{text[:begin]}\n{table()}{text[end:]}", encoding="utf-8")
