"""A few rounds of the service in exact numbers: the real mirror, wire, tail, planner and rule over enumerated coins.

What is made up here is only what the laws are (`p` of the target, `q` of the drafter) and who throws the coins.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import product
from pathlib import Path as Folder
from typing import Any, Final, NamedTuple

import numpy as np

from drafter.mirror import Mirror
from engine.masses import Mass, take
from engine.truncated import pick
from protocol.laws import Law
from protocol.messages import DraftSync, Sampling, VerifyCommit
from tests.exact.enumeration import Interval, Path, Purse, outcomes
from verifier.acceptance import RULES, Entry
from verifier.config import VerifierConfig
from verifier.planner import Candidate, Planner
from verifier.rules.decisions import Decide
from verifier.rules.judging import Guess, guesses_of, verdict
from verifier.rules.plain import compare
from verifier.step import Verdict, Work
from verifier.tail import DraftTail

CONFIG: Final = VerifierConfig(model=Folder())
Tokens = tuple[int, ...]
Numbers = Sequence[Fraction]
Target = Callable[[Tokens], Numbers]
"""What the target gives to each token after these."""


class Source(NamedTuple):
    """Where a guess was drafted: what was committed then, and the guesses before it."""

    committed: Tokens
    guesses: Tokens


Drafter = Callable[[Source], Numbers]
"""What a drafter draws from there, in fractions that float32 can hold; a law of one token is not sent."""
Confidence = Callable[[Numbers, int], float]
"""What a drafter says of a token, from the law and the token."""


def own(law: Numbers, token: int) -> float:
    """How likely the token itself was."""
    return float(law[token])


def largest(law: Numbers, token: int) -> float:  # noqa: ARG001
    """How likely the likeliest token was."""
    return float(max(law))


class Line(NamedTuple):
    """One request between two rounds: guesses in the tail with what was committed when they were drafted."""

    committed: Tokens = ()
    ahead: Tokens = ()
    bases: Tokens = ()
    coins: frozenset[tuple[Hashable, Interval]] = frozenset()


class Renews(StrEnum):
    """What a drafter does with its tail when it knows a newer base."""

    NEVER = "never"
    SOONER = "sooner"  # draws all of it anew, and the verifier has that before its next round
    LATER = "later"  # the same, and it comes while the next round is on its way
    LOOKING = (
        "looking"  # draws it anew, but keeps tokens and laws up to the first that is not the same
    )


@dataclass(frozen=True)
class Service:
    """How a verifier and its drafter are set.

    `holds` is how long the tail is when each round begins. `further`: the guess behind the window is tested too.
    `reused`: roles whose coins do not carry the round's base although the rule wants it.
    """

    rule: str
    target: Target
    drafter: Drafter
    planner: Planner
    holds: Sequence[int]
    budget: int = 99
    confidence: Confidence = own
    further: bool = True
    reused: frozenset[str] = frozenset()
    entry: Entry | None = None
    decide: Decide | None = None
    sends: bool = True  # its laws
    wire: bool = True  # they travel, as float32
    renews: Renews = Renews.NEVER
    lengths: list[Fraction] = field(default_factory=list)  # tokens a round, as an expectation

    @property
    def _entry(self) -> Entry:
        return self.entry or RULES[self.rule]

    def run(self, requests: int, enough: int) -> dict[tuple[Line, ...], Fraction]:
        """All outcomes after the last round; a request with `enough` tokens rests."""
        states = {(Line(),) * requests: Fraction(1)}
        for held in self.holds:
            after: dict[tuple[Line, ...], Fraction] = defaultdict(Fraction)
            grown = Fraction(0)
            for lines, weight in states.items():
                if all(len(line.committed) >= enough for line in lines):
                    after[lines] += weight
                    continue
                for outcome, share in outcomes(lambda path: self._round(path, lines, held)).items():  # noqa: B023
                    after[outcome] += weight * share
                    grown += weight * share * sum(len(line.committed) for line in outcome)
                grown -= weight * sum(len(line.committed) for line in lines)
            self.lengths.append(grown)
            states = after
        return states

    def _round(self, path: Path, lines: tuple[Line, ...], held: int) -> tuple[Line, ...]:
        purses = [Purse(path, dict(line.coins)) for line in lines]
        sides = [
            self._draft(request, line, purse, held)
            for request, (line, purse) in enumerate(zip(lines, purses, strict=True))
        ]
        candidates = [
            Candidate(len(tail.ahead), 99, tuple(tail.confidences)) for _, tail, _ in sides
        ]
        lengths = self.planner.lengths(candidates, self.budget)
        return tuple(
            self._verify(request, line, purse, side, length=length, held=held)
            for request, (line, purse, side, length) in enumerate(
                zip(lines, purses, sides, lengths, strict=True)
            )
        )

    # --- the drafter ------------------------------------------------------------------------------

    def _draft(
        self, request: int, line: Line, purse: Purse, held: int
    ) -> tuple[Mirror, DraftTail, list[int]]:
        """The mirror and the tail as they were, and as many more guesses as the tail should hold."""
        mirror = Mirror.open(
            1,
            DraftSync(
                request, 1, (), line.committed, 99, Sampling(1.0), slice=9, fresh=self._entry.fresh
            ),
        )
        bases: list[int] = []
        for place in range(len(line.ahead)):
            token, base = line.ahead[place], line.bases[place]
            if self.renews is Renews.SOONER:
                break
            if self.renews is Renews.LOOKING and self._drawn(line, mirror, purse)[0] != token:
                break
            self._extend(mirror, token, self._law(line, line.ahead[:place], base))
            bases.append(base)
        if self.renews is not Renews.LATER or not line.ahead:
            bases += self._fill(line, mirror, purse, held)
        tail = DraftTail(line.committed, len(self.target(())))
        tail.grant(99)
        tail.receive(mirror.take())
        if self.sends and not self.wire:
            guesses = tuple(tail.ahead)
            numbers = [self._law(line, guesses[:place], base) for place, base in enumerate(bases)]
            tail.laws = [_Spoken(list(law)) for law in numbers]  # type: ignore[misc]
        return mirror, tail, bases

    def _fill(self, line: Line, mirror: Mirror, purse: Purse, held: int) -> list[int]:
        """Guesses until the tail is so long; on what base each was drawn."""
        bases = []
        while len(mirror.line) - mirror.base < held:
            self._extend(mirror, *self._drawn(line, mirror, purse))
            bases.append(mirror.base)
        return bases

    def _drawn(self, line: Line, mirror: Mirror, purse: Purse) -> tuple[int, Numbers]:
        """The next guess of a mirror, drawn on the newest base."""
        law = self._law(line, tuple(mirror.line[mirror.base :]), mirror.base)
        fresh = mirror.fresh and "draft" not in self.reused
        coin: Any = purse.coin("draft", len(mirror.line), mirror.base + 1 if fresh else 0)
        return pick(law, coin), law  # type: ignore[arg-type]

    def _law(self, line: Line, guesses: Tokens, base: int) -> Numbers:
        text = (*line.committed, *guesses)
        return self.drafter(Source(text[:base], text[base:]))

    def _extend(self, mirror: Mirror, token: int, law: Numbers) -> None:
        if not self.sends or not self.wire:
            mirror.extend((token,), (self.confidence(law, token),))
            return
        possible = [each for each, share in enumerate(law) if share]
        shares = np.array([float(law[each]) for each in possible], np.float32)
        sent = Law(np.array(possible, np.int32), shares)
        assert [Fraction(share) for share in sent.shares] == [law[each] for each in possible]
        mirror.extend((token,), (self.confidence(law, token),), (sent,))

    # --- the verifier -----------------------------------------------------------------------------

    def _verify(
        self,
        request: int,
        line: Line,
        purse: Purse,
        side: tuple[Mirror, DraftTail, list[int]],
        *,
        length: int,
        held: int,
    ) -> Line:
        mirror, tail, bases = side
        base = len(line.committed)
        further = tail.ahead[length] if self.further and len(tail.ahead) > length else None
        work = Work(
            request=request,
            tokens=(0, *tail.ahead[:length]),
            start=base - 1,
            pages=(),
            drafts=length,
            draws=length + 1,
            sampling=Sampling(1.0),
            choice=0,
            further=further,
            laws=tail.laws[: length + 1],
        )
        tokens = self._judge(work, line.committed, purse).tokens
        if self.renews is Renews.LATER and line.ahead:
            mirror.replace(base, (), ())
            bases = self._fill(line, mirror, purse, held)
            tail.receive(mirror.take())
        tail.commit(tokens)
        mirror.adopt(VerifyCommit(request, 1, base, tokens, 99))
        assert mirror.line[mirror.base :] == tail.ahead
        left = len(tail.ahead)
        return Line(
            (*line.committed, *tokens),
            tuple(tail.ahead),
            tuple(bases[len(bases) - left :]) if left else (),
            self._remembered(purse, mirror.base),
        )

    def _remembered(self, purse: Purse, base: int) -> frozenset[tuple[Hashable, Interval]]:
        """Coins whose names may come again: of positions that are not final, and of no round that is over."""
        return frozenset(
            (name, interval)
            for name, interval in purse.known.items()
            if name[1] >= base and not name[2]  # type: ignore[index]
        )

    def _judge(self, work: Work, committed: Tokens, purse: Purse) -> Verdict:
        entry = self._entry
        rows = [
            np.array(self.target((*committed, *work.guesses[:place])), dtype=object)
            for place in range(work.draws)
        ]
        base = len(committed)

        def coins(role: str) -> list[Any]:
            fresh = entry.fresh and role not in self.reused
            return [
                purse.coin(role, base + place, base + 1 if fresh else 0)
                for place in range(len(rows))
            ]

        if entry.decide is None:
            drawn = [
                pick(row.tolist(), coin) for row, coin in zip(rows, coins("target"), strict=True)
            ]
            return compare([work], drawn, [True] * len(drawn))[0]
        guesses = [
            Guess(guess.token, guess.ids, _exact(guess.shares))
            for guess in guesses_of(work, laws=entry.laws)
        ]
        masses = [
            Mass(row[guess.ids], 1 - sum(row[guess.ids]))
            for row, guess in zip(rows, guesses, strict=False)
        ]
        return verdict(
            work,
            guesses,
            masses,
            decide=self.decide or entry.decide(CONFIG),
            coins=coins("accept"),
            drawing=_Exact(rows, coins("final")),
        )


def _exact(shares: Any) -> Any:  # noqa: ANN401
    return np.array([Fraction(share) for share in shares], dtype=object)


@dataclass(frozen=True)
class _Spoken:
    """A law in numbers that float32 cannot hold."""

    shares: Numbers

    @property
    def ids(self) -> Any:  # noqa: ANN401
        return np.arange(len(self.shares), dtype=np.int32)


class _Exact(NamedTuple):
    """What the token that ends a round is drawn from."""

    rows: Sequence[Any]
    coins: Sequence[Any]

    def usable(self, place: int) -> bool:
        return place < len(self.rows)

    def draw(self, place: int, ids: Any, taken: Any) -> int:  # noqa: ANN401
        weights = self.rows[place].copy()
        take(weights, ids, taken)
        return pick(weights.tolist(), self.coins[place])


# --- laws of whole texts ------------------------------------------------------------------------------


def emitted(
    states: dict[tuple[Line, ...], Fraction], target: Target, length: int
) -> dict[tuple[Tokens, ...], Fraction]:
    """The law of the first `length` tokens of all requests together; plain decoding goes on where fewer are there."""
    law: dict[tuple[Tokens, ...], Fraction] = defaultdict(Fraction)
    for lines, weight in states.items():
        whole = [texts(target, line.committed[:length], length) for line in lines]
        for parts in product(*(each.items() for each in whole)):
            share = weight
            for _, each in parts:
                share *= each
            law[tuple(text for text, _ in parts)] += share
    return law


def texts(target: Target, begun: Tokens, length: int) -> dict[Tokens, Fraction]:
    """What plain decoding makes of a text that has begun."""
    law = {begun: Fraction(1)}
    for _ in range(length - len(begun)):
        law = {
            (*text, token): weight * share
            for text, weight in law.items()
            for token, share in enumerate(target(text))
            if share
        }
    return law


def distance(service: Service, length: int, requests: int = 1) -> Fraction:
    """Total variation between the law of what is emitted and that of plain decoding; 0 means exact."""
    found = emitted(service.run(requests, length), service.target, length)
    alone = texts(service.target, (), length)
    wanted: dict[tuple[Tokens, ...], Fraction] = {}
    for parts in product(*[alone.items()] * requests):
        share = Fraction(1)
        for _, each in parts:
            share *= each
        wanted[tuple(text for text, _ in parts)] = share
    names = found.keys() | wanted.keys()
    return (
        sum(
            (abs(found.get(n, Fraction(0)) - wanted.get(n, Fraction(0))) for n in names),
            Fraction(0),
        )
        / 2
    )
