"""`orchestrator doctor`: whether a service could run here, each trouble with a way out. It changes nothing."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from orchestrator.commands.checks import here, models, services
from orchestrator.commands.checks.finding import Finding, Grade
from orchestrator.commands.output import FAILED, data, out
from orchestrator.config import Config

STYLES: Final = {Grade.GOOD: "green", Grade.DOUBT: "yellow", Grade.BAD: "red"}


def doctor(config: Config, *, as_json: bool) -> int:
    """Print every finding; the exit code is 1 if one of them keeps a service from running."""
    found: list[Finding] = []
    for finding in findings(config):
        found.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        data([asdict(finding) for finding in found])
    return FAILED if any(finding.grade is Grade.BAD for finding in found) else 0


def findings(config: Config) -> Iterator[Finding]:
    """What there is to say of this machine, the models of `config` and the services that run."""
    yield from here.findings(config)
    yield from models.findings(config)
    yield from services.findings()


def _print(finding: Finding) -> None:
    out.print(f"{finding.grade:<5}", end="  ", style=STYLES[finding.grade])
    out.print(f"{finding.what:<12} {finding.text}", markup=False, soft_wrap=True)
    if finding.hint:
        out.print(f"{'':<5}  {'':<12} -> {finding.hint}", markup=False, soft_wrap=True)
