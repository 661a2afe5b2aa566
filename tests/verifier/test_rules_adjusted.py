"""Every rule under penalties, biases, bans and grammars, at every position of ragged windows, beside other requests.

A window of any length must be judged by the rows that plain decoding would see: first the rows themselves are compared,
then what each rule makes of them, by the law of what it emits and at temperature 0 by the text.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from engine.attention import Reached
from engine.params import SamplingParams
from engine.runner import Forward, Row
from engine.sampling import transform
from protocol.laws import Law
from protocol.messages import Sampling
from tests.verifier.test_acceptance import V
from tests.verifier.test_acceptance import law as logits_after
from verifier.acceptance import RULES, Rule, make
from verifier.config import PlannerConfig, SyntheticConfig, VerifierConfig
from verifier.judge_torch import TorchJudge
from verifier.matcher import Masks
from verifier.step import Step, Verdict, Work
from verifier.worker import EngineWorker

PROMPT: Final = (0, 3, 5)
OUTPUT: Final = (5, 2)
"""What was committed before the rounds of these stories."""


class Alternates:
    """A grammar: behind an even token an odd one, behind an odd token any but itself."""

    complete = finished = False

    def __init__(self, output: Sequence[int]) -> None:
        self._output = output

    def masks(self, drafts: Sequence[int]) -> Masks:
        rows: list[bytes] = []
        line = [*self._output]
        for draft in (*drafts, None):
            allowed = [token for token in range(V) if self._may_follow(line[-1], token)]
            rows.append(bytes([sum(1 << token for token in allowed)]))
            if draft is None or draft not in allowed:
                break
            line.append(draft)
        return Masks(tuple(rows))

    def accept(self, token: int) -> str:
        raise AssertionError(token)

    @staticmethod
    def _may_follow(last: int, token: int) -> bool:
        return token % 2 == 1 if last % 2 == 0 else token != last


KINDS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "frequency": {"frequency_penalty": 1.5},
    "presence": {"presence_penalty": 1.5},
    "repetition": {"repetition_penalty": 2.0},
    "bias": {"logit_bias": ((2, 2.0), (4, -3.0))},
    "allowed": {"allowed": (1, 2, 4, 5)},
    "bad words": {"bad_words": ((3,), (2, 5), (4, 4))},
    "filters": {"top_k": 5, "top_p": 0.9, "min_p": 0.02},
    "grammar": {},
    "early end": {},
    "all": {
        "frequency_penalty": 0.5,
        "logit_bias": ((1, 1.0),),
        "bad_words": ((6,),),
        "top_k": 6,
    },
}


def window(kind: str, drafts: Sequence[int], output: Sequence[int] = OUTPUT, **how: Any) -> Work:
    sampling = Sampling(how.pop("temperature", 1.0), seed=how.pop("seed", 0))
    sampling = Sampling(
        **{name: getattr(sampling, name) for name in Sampling.__struct_fields__} | KINDS[kind]
    )
    line = (*PROMPT, *output)
    early = kind in {"early end", "all"}
    return Work(
        request=1,
        tokens=(line[-1], *drafts),
        start=len(line) - 1,
        pages=(),
        drafts=len(drafts),
        draws=len(drafts) + 1,
        sampling=sampling,
        choice=0,
        banned=frozenset({7}) if early else frozenset(),
        banned_draws=max(0, 4 - len(output)) if early else 0,
        prompt=PROMPT,
        output=tuple(output),
        matcher=Alternates(output) if kind in {"grammar", "all"} else None,
        **how,
    )


def rows_of(work: Work) -> Tensor:
    """What the target says at each position of a window."""
    line = [*PROMPT, *work.output, *work.guesses]
    first = len(line) - work.drafts
    return torch.stack([logits_after(line[: first + place]) for place in range(work.draws)])


class Model:
    """The target of these stories, for a step that is known."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._logits_NV = torch.cat([rows_of(work) for work in works])

    def forward(self, rows: Sequence[Row], *, reached: Reached | None = None) -> Forward:  # noqa: ARG002
        assert sum(row.logits for row in rows) == len(self._logits_NV)
        return Forward(self._logits_NV, {})


def judged(rule: Rule, works: Sequence[Work]) -> list[Verdict]:
    return EngineWorker(Model(works), TorchJudge(rule)).run(Step(tuple(works)))


def rule_of(name: str) -> Rule:
    curve = SyntheticConfig(rates=(0.9, 0.7, 0.5)) if name == "synthetic" else SyntheticConfig()
    planner = PlannerConfig(draft_length=4)
    return make(VerifierConfig(model=".", rule=name, planner=planner, synthetic=curve))


def seen(works: Sequence[Work]) -> list[Tensor]:
    """The rows of each window as the rule gets them."""
    found: list[Tensor] = []

    def spy(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
        found.extend(torch.split(logits_NV.clone(), [work.draws for work in windows]))
        return [Verdict((0,), 0) for _ in windows]

    judged(spy, works)
    return found


DRAFTS: Final = ((1, 4, 1, 2), (), (5,), (1, 2, 3), (3, 1), (1, 1, 1, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_sees_the_row_of_plain_decoding(kind: str) -> None:
    """Ragged windows of all kinds in one step; behind a draft that may not stand nothing counts."""
    works = [window(kind, drafts) for drafts in DRAFTS]
    others = [window(other, drafts) for other, drafts in zip(KINDS, DRAFTS, strict=False)]
    mixed = [each for pair in zip(works, others, strict=True) for each in pair]
    for work, rows_NV in zip(works, seen(mixed)[::2], strict=True):
        for place in range(work.draws):
            [plain_1V] = seen([window(kind, (), (*OUTPUT, *work.guesses[:place]))])
            assert torch.equal(rows_NV[place], plain_1V[0])
            if place < work.drafts and plain_1V[0, work.guesses[place]] == -torch.inf:
                break


@pytest.mark.parametrize("kind", list(KINDS)[1:])
def test_every_kind_changes_something(kind: str) -> None:
    law = law_after(kind, OUTPUT)
    assert np.abs(law - law_after("nothing", OUTPUT)).sum() > 0.02


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RULES)
def test_a_step_of_many_is_many_steps_of_one(name: str, kind: str) -> None:
    """Greedy and sampled, drafts drawn and not, windows of all lengths, of this kind and others."""
    temperatures = [0.0] if name == "greedy" else [0.0, 1.0, 0.7]
    works = [
        window(
            each,
            drafts[:length],
            temperature=temperatures[(seed + length) % len(temperatures)],
            seed=seed,
            laws=[SLICE] * (length if seed % 2 else 0),
        )
        for seed, drafts in enumerate(DRAFTS)
        for length in range(len(drafts) + 1)
        for each in (kind, "nothing")
    ]
    rule = rule_of(name)
    assert judged(rule, works) == [judged(rule, [work])[0] for work in works]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in RULES if name != "synthetic"])
def test_greedy_windows_say_what_plain_decoding_says(name: str, kind: str) -> None:
    text = [*OUTPUT]
    for _ in range(6):
        text.append(int(law_after(kind, text, greedy=True).argmax()))
    wanted = tuple(text[len(OUTPUT) :])
    rule = rule_of(name)
    for right in range(5):
        for drafts in range(right, 5):
            guesses = [*wanted[:right], *[(wanted[right] + 1) % V] * (drafts - right)]
            [verdict] = judged(rule, [window(kind, guesses, temperature=0.0, laws=[None] * drafts)])
            assert verdict == Verdict(wanted[: right + 1], right)


# --- the law ----------------------------------------------------------------------------------------------------------

SLICE: Final = Law(
    np.array([1, 5, 3, 2, 4], np.int32), np.array([0.3, 0.25, 0.2, 0.15, 0.1], np.float32)
)
ROUNDS: Final = 500


@cache
def _law_after(kind: str, output: tuple[int, ...], temperature: float) -> Any:  # noqa: ANN401
    work = window(kind, (), output, temperature=temperature)
    [row_1V] = seen([work])
    return transform(row_1V, [SamplingParams.of(work.sampling)])[0].double().numpy()


def law_after(kind: str, output: Sequence[int], *, greedy: bool = False) -> Any:  # noqa: ANN401
    """What plain decoding draws the next token from."""
    return _law_after(kind, tuple(output), 0.0 if greedy else 1.0)


def drawn(rng: np.random.Generator) -> list[int]:
    return [int(token) for token in rng.choice(SLICE.ids, 3, p=SLICE.shares)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["match", "ratio", "block", "threshold"])
def test_two_tokens_follow_the_law_of_plain_decoding(name: str, kind: str) -> None:
    """Where a round emits one token, the next round begins without drafts."""
    rng = np.random.default_rng(7)
    rule = rule_of(name)
    works = [window(kind, drawn(rng), seed=seed, laws=[SLICE] * 3) for seed in range(ROUNDS)]
    texts = [verdict.tokens for verdict in judged(rule, works)]
    short = [place for place, text in enumerate(texts) if len(text) == 1]
    nexts = judged(
        rule, [window(kind, (), (*OUTPUT, *texts[place]), seed=place) for place in short]
    )
    for place, verdict in zip(short, nexts, strict=True):
        texts[place] += verdict.tokens
    counts = Counter(text[:2] for text in texts)
    law = {
        (first, second): p * q
        for first, p in enumerate(law_after(kind, OUTPUT))
        for second, q in enumerate(law_after(kind, (*OUTPUT, first)) if p else ())
        if p * q
    }
    assert set(counts) <= set(law), "what may not stand was drawn"
    cells = [(counts[pair], ROUNDS * p) for pair, p in law.items()]
    few = [cell for cell in cells if cell[1] < 5]
    cells = [cell for cell in cells if cell[1] >= 5]
    if few:
        cells.append((sum(seen for seen, _ in few), sum(expected for _, expected in few)))
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    assert statistic < chi2.isf(1e-5, len(cells) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_curve_keeps_nothing_that_may_not_stand(kind: str) -> None:
    rng = np.random.default_rng(8)
    works = [window(kind, drawn(rng), seed=seed) for seed in range(40)]
    for verdict in judged(rule_of("synthetic"), works):
        for place, token in enumerate(verdict.tokens):
            may = seen([window(kind, (), (*OUTPUT, *verdict.tokens[:place]))])[0][0]
            assert may[token] > -torch.inf
