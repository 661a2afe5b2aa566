"""What runs say together: medians, spread, ratios of pairs. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, Final

from orchestrator.bench.client import Answer

BASES: Final = ("plain", "transformers")
"""Modes that others are compared with."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """Which system a figure is of."""

    mode: str
    method: str | None = None
    planner: str | None = None
    overlap: str | None = None
    """`on` or `off`, where both are compared."""

    def __str__(self) -> str:
        turns = "in turn" if self.overlap == "off" else None
        return " ".join(filter(None, (self.mode, self.method, self.planner, turns)))


@dataclass(frozen=True)
class Work:
    """Seconds of forwards of the target, and of guessing: of one verifier, and of a drafter in the mean."""

    verifying: float
    drafting: float

    def since(self, before: "Work") -> "Work":
        return Work(self.verifying - before.verifying, self.drafting - before.drafting)


@dataclass(frozen=True, kw_only=True)
class Run:
    """All prompts once, against one system that knew none of them."""

    label: Label
    concurrency: int
    number: int
    """Runs of the same number are a pair."""
    seconds: float
    answers: Sequence[Answer]
    drafts: tuple[int, int] | None = None
    """Drafted and accepted tokens, from a system that says them only for all answers together."""
    work: Work | None = None
    """What its sides did meanwhile, where it says so."""
    others: float = 0.0
    """Cores that were busy with something else meanwhile: how far the run can be trusted."""

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.answers)

    @property
    def speed(self) -> float:
        """Output tokens a second."""
        return self.tokens / self.seconds

    @property
    def drafted(self) -> int:
        return self.drafts[0] if self.drafts else sum(each.drafted for each in self.answers)

    @property
    def accepted(self) -> int:
        return self.drafts[1] if self.drafts else sum(each.accepted for each in self.answers)

    @property
    def emitted(self) -> float | None:
        """Tokens a round, over all rounds; None for a system that does not count rounds.

        Every round emits what it accepts and one token more, which gives the rounds where only drafts are counted.
        """
        rounds = sum(each.rounds for each in self.answers)
        if not rounds and self.drafts:
            rounds = self.tokens - self.accepted
        return self.tokens / rounds if rounds else None

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that were accepted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    def busy(self, side: Callable[[Work], float]) -> float | None:
        """Share of the time in which a side computed; None where it does not say."""
        return None if self.work is None else side(self.work) / self.seconds

    def pace(self, share: float) -> float:
        """Milliseconds for an output token that this share of the answers keep to."""
        return 1e3 * quantile([each.pace for each in self.answers if each.pace is not None], share)

    def differing(self, other: "Run") -> list[str]:
        """Prompts whose answers are not the same text in both."""
        texts = {answer.prompt: answer.text for answer in other.answers}
        return [each.prompt for each in self.answers if texts.get(each.prompt) != each.text]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: medians over runs. Its fields are the keys of the JSON."""

    prompts: str
    method: str | None
    planner: str | None
    concurrency: int
    mode: str
    output_tokens_per_s: float
    ttft_ms: float
    tpot_ms_p50: float
    tpot_ms_p99: float
    mean_emitted: float | None
    acceptance_rate: float | None
    ratio_to_plain: float | None
    ratio_to_transformers: float | None
    overlap: str | None
    verifier_busy: float | None
    drafter_busy: float | None

    @property
    def label(self) -> Label:
        return Label(mode=self.mode, method=self.method, planner=self.planner, overlap=self.overlap)


KEYS: Final = tuple(field.name for field in fields(Row))


@dataclass(frozen=True)
class Spread:
    """The lowest and the highest of several."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        return cls(min(values), max(values)) if values else None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A row and how far its runs lie apart."""

    row: Row
    runs: int
    speed: Spread
    to_plain: Spread | None
    to_transformers: Spread | None
    others: float
    differing: int | None
    """Most answers of a run that were not those of the plain run beside it."""


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them do not exceed; not a number where there is none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def summaries(runs: Iterable[Run], prompts: str) -> list[Summary]:
    """One for each system and concurrency: by concurrency, then in the order in which systems came first."""
    groups: dict[tuple[Label, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.label, run.concurrency), []).append(run)
    places = {label: place for place, label in enumerate(dict.fromkeys(one for one, _ in groups))}
    bases = {
        mode: {
            (run.concurrency, run.number): run
            for group in groups.values()
            for run in group
            if run.label.mode == mode
        }
        for mode in BASES
    }
    done = [_summary(group, prompts, bases) for group in groups.values()]
    return sorted(done, key=lambda each: (each.row.concurrency, places[each.row.label]))


def _summary(
    group: Sequence[Run], prompts: str, bases: Mapping[str, Mapping[tuple[int, int], Run]]
) -> Summary:
    ratios = {mode: _ratios(group, beside) for mode, beside in bases.items()}
    row = Row(
        prompts=prompts,
        method=group[0].label.method,
        planner=group[0].label.planner,
        concurrency=group[0].concurrency,
        mode=group[0].label.mode,
        output_tokens_per_s=median(run.speed for run in group),
        ttft_ms=median(1e3 * median(each.first for each in run.answers) for run in group),
        tpot_ms_p50=median(run.pace(0.5) for run in group),
        tpot_ms_p99=median(run.pace(0.99) for run in group),
        mean_emitted=_median(group, lambda run: run.emitted),
        acceptance_rate=_median(group, lambda run: run.acceptance),
        ratio_to_plain=median(ratios["plain"]) if ratios["plain"] else None,
        ratio_to_transformers=median(ratios["transformers"]) if ratios["transformers"] else None,
        overlap=group[0].label.overlap,
        verifier_busy=_median(group, lambda run: run.busy(lambda work: work.verifying)),
        drafter_busy=_median(group, lambda run: run.busy(lambda work: work.drafting)),
    )
    spread = Spread.of([run.speed for run in group])
    assert spread is not None
    return Summary(
        row=row,
        runs=len(group),
        speed=spread,
        to_plain=Spread.of(ratios["plain"]),
        to_transformers=Spread.of(ratios["transformers"]),
        others=max(run.others for run in group),
        differing=_differing(group, bases["plain"]),
    )


def _ratios(group: Sequence[Run], beside: Mapping[tuple[int, int], Run]) -> list[float]:
    pairs = [(run, beside.get((run.concurrency, run.number))) for run in group]
    return [run.speed / base.speed for run, base in pairs if base is not None]


def _differing(group: Sequence[Run], plain: Mapping[tuple[int, int], Run]) -> int | None:
    pairs = [(run, plain.get((run.concurrency, run.number))) for run in group]
    return max((len(run.differing(base)) for run, base in pairs if base is not None), default=None)


def _median(group: Sequence[Run], figure: Callable[[Run], float | None]) -> float | None:
    values = [value for run in group if (value := figure(run)) is not None]
    return median(values) if values else None


def as_json(done: Sequence[Summary]) -> list[dict[str, Any]]:
    """The rows as plain data; what is not a number is null."""
    return [
        {key: None if value != value else value for key, value in asdict(each.row).items()}  # noqa: PLR0124
        for each in done
    ]


def record(run: Run) -> dict[str, Any]:
    """Everything of a run, texts too, as plain data."""
    return asdict(run) | {"output_tokens_per_s": run.speed}
