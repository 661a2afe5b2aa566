"""The table of combinations as the docs show it: `python -m tests.verifier.exactness_table` writes it there."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from verifier.acceptance import RULES
from verifier.exactness import Confidence, Draws, Finding, Kind, finding
from verifier.planner import Looks

FILE: Final = Path(__file__).parents[2] / "docs" / "verification.md"
BEGIN: Final = "<!-- combinations: written by tests/verifier/exactness_table.py -->"
END: Final = "<!-- end of combinations -->"


def table() -> str:
    """A row for each rule, way of guessing and confidence; a column for each thing that a planner may look at."""
    lines = [
        "| rule | guesses | confidence | " + " | ".join(f"looks {look}" for look in Looks) + " |",
        "| --- | --- | --- |" + " --- |" * len(Looks),
        *map(_line, _rows()),
    ]
    return "\n".join(lines) + "\n"


Row = tuple[str, str, str, tuple[Finding, ...]]


def _rows() -> Iterator[Row]:
    """Rows that say the same of every confidence, or of every way to guess, are one."""
    for rule, entry in RULES.items():
        if not entry.laws:
            findings = tuple(finding(rule, look, Draws.CERTAIN, Confidence.TOKEN) for look in Looks)
            yield rule, "any", "any", findings
            continue
        for draws in Draws:
            found = {
                confidence: tuple(finding(rule, look, draws, confidence) for look in Looks)
                for confidence in Confidence
            }
            for findings, same in groupby(found, key=found.__getitem__):
                names = [each.value for each in same]
                said = "any" if len(names) == len(Confidence) else ", ".join(names)
                yield rule, draws.value, said, findings


def _line(row: Row) -> str:
    rule, draws, confidence, findings = row
    cells = [_cell(each) for each in findings]
    if rule == "synthetic":
        cells = [Kind.LOSSY.value] * len(cells)
    elif rule == "threshold":
        cells = [f"{cell} at 1, else {Kind.LOSSY}" for cell in cells]
    return f"| `{rule}` | {draws} | {confidence} | {' | '.join(cells)} |"


def _cell(found: Finding) -> str:
    return f"refused: {found.reason}" if found.kind is Kind.REFUSED else found.kind.value


if __name__ == "__main__":
    text = FILE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    FILE.write_text(f"{text[:begin]}\n{table()}{text[end:]}", encoding="utf-8")
