"""`orchestrator economics`: prints what speculation can bring, and draws it."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from orchestrator.commands.output import out, say
from orchestrator.economics import Economics, emitted, tie
from orchestrator.settings import ConfigError
from verifier.costs import CostTable
from verifier.profiling import read

LENGTHS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
REQUESTS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def economics(
    *,
    acceptance: float,
    ratio: float,
    drafts: int,
    saturation: float,
    table: Path | None,
    plot: Path | None,
) -> int:
    """Tell of a chain and of a parallel drafter; the exit code."""
    if plot and find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib: pip install 'draftmesh[bench]'")
    known = _table(table)
    chain = Economics(acceptance, ratio, saturation, table=known)
    parallel = Economics(acceptance, ratio, saturation, parallel=True, table=known)
    for name, one in (("chain", chain), ("parallel", parallel)):
        _say(f"{name}: speedup with {drafts} drafts, alone", f"{one.speedup(drafts):.2f}x")
        _say(f"{name}: pays up to, requests at once", f"{one.break_even(drafts):.0f}")
        _say(f"{name}: speedup at saturation", f"{one.at_saturation(drafts):.2f}x")
    half = Economics(acceptance / 2, ratio, saturation, parallel=True, table=known)
    _say("parallel, at half the acceptance", f"{half.speedup(drafts):.2f}x")
    _say("parallel is as fast as the chain at acceptance", f"{tie(chain, drafts):.3f}")
    _say(f"tokens a round with {drafts} drafts", f"{emitted(acceptance, drafts):.3f}")
    best = ", ".join(f"{each}: {chain.best(each)}" for each in REQUESTS)
    _say("best draft length of the chain by requests at once", best)
    if plot:
        for path in draw(chain, parallel, plot):
            say(f"  {path}")
    return 0


def _say(what: str, value: str) -> None:
    out.print(f"  {what:<52} {value}", markup=False, soft_wrap=True)


def _table(path: Path | None) -> CostTable | None:
    if path is None:
        return None
    try:
        table = read(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if table is None:
        raise ConfigError(f"there is no cost table {path}")
    return table


def draw(chain: Economics, parallel: Economics, folder: Path) -> list[Path]:
    """Speedup against draft length and against requests at once, as PNG and SVG; the files."""
    from orchestrator.bench.pictures import lines  # noqa: PLC0415  # an extra

    both: Sequence[tuple[str, Economics]] = (("chain", chain), ("parallel", parallel))
    length = [(name, LENGTHS, [one.speedup(each) for each in LENGTHS]) for name, one in both]
    load = [
        (f"{name}, {drafts} drafts", REQUESTS, [one.speedup(drafts, each) for each in REQUESTS])
        for name, one in both
        for drafts in (1, 3, 7)
    ]
    return [
        *lines(folder, "economics-length", "draft length", "times plain", length, level=1.0),
        *lines(
            folder,
            "economics-load",
            "requests at once",
            "times plain",
            load,
            level=1.0,
            doubling=True,
        ),
    ]
