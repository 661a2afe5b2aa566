"""The target of the simulation: the next token is a function of a hash of everything before it.

A *state* is one number for one sequence of tokens. The worker computes states through its page tables, and only so:
what the core believes about a request never reaches a draw except through the pages that it names.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from engine.masses import Ids, Mass, Numbers
from kvtransfer.layout import Layer, Layout
from kvtransfer.memory import Pages
from protocol.messages import Sampling, Submit
from protocol.tensor import Tensor
from tests.sim.breach import Breach
from verifier.acceptance import RULES, Entry
from verifier.config import VerifierConfig
from verifier.hidden import Span
from verifier.pending import Pending
from verifier.rules.judging import guesses_of, verdict
from verifier.step import Step, Verdict, Work

END: Final = 0
ENDS_ONE_IN: Final = 64
ROOT: Final = 0x1D872B41
ROW_BYTES: Final = 8
LETTERS: Final = ("a", "b", "ab", "c", "ba")
_MASK: Final = (1 << 64) - 1


def mix(state: int, value: int) -> int:
    """A number that looks drawn at random for every pair of numbers."""
    word = (state ^ (value + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9 & _MASK
    word = (word ^ (word >> 29)) * 0x94D049BB133111EB & _MASK
    return word ^ (word >> 32)


class Chain:
    """States by their tokens, and what the target says after them. It remembers which state each one continues.

    In a small vocabulary tokens are often right by chance: then only states tell where a guess was drafted.
    """

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.parents: dict[int, int] = {}

    def after(self, state: int, token: int) -> int:
        """The state of `state`'s tokens followed by `token`."""
        follower = mix(state, token)
        self.parents[follower] = state
        return follower

    def walk(self, state: int, tokens: Iterable[int]) -> list[int]:
        """The states after each of `tokens`."""
        states = []
        for token in tokens:
            state = self.after(state, token)
            states.append(state)
        return states

    def unbroken(self, states: Sequence[int]) -> bool:
        """Whether these are the states of one sequence of tokens from its begin, none missing, none foreign."""
        parents = list(map(self.parents.get, states))
        return parents == [ROOT, *states[:-1]] if states else True

    def draw(
        self,
        state: int,
        sampling: Sampling,
        choice: int,
        position: int,
        banned: Collection[int] = (),
    ) -> int:
        """The target's token for `position` after `state`; keyed as the real rules key their draws."""
        word = mix(state, 1)
        if sampling.temperature > 0:
            word = mix(mix(mix(word, sampling.seed), choice), position)
        while (token := self._token(word)) in banned:
            word = mix(word, 2)
        return token

    def _token(self, word: int) -> int:
        return END if word % ENDS_ONE_IN == 0 else 1 + (word >> 8) % (self.vocabulary - 1)


def text_of(tokens: Iterable[int]) -> str:
    """The text of whole output; some tokens show only with the next one, as split characters do."""
    text = held = ""
    for token in tokens:
        held += LETTERS[token % len(LETTERS)]
        if token % 7 != 3:
            text += held
            held = ""
    return text


class ToyDetokenizer:
    """`text_of`, one token at a time."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._size = 0

    def step(self, token: int) -> str:
        self._tokens.append(token)
        text = text_of(self._tokens)
        piece = text[self._size :]
        self._size = len(text)
        return piece


@dataclass(frozen=True, slots=True)
class Plain:
    """What plain decoding answers; `states[n]` is the state of the prompt and n output tokens."""

    tokens: tuple[int, ...]
    text: str
    reason: str
    states: tuple[int, ...]


def plain(chain: Chain, submit: Submit, choice: int) -> Plain:
    """Decode one token at a time, with none of the service's code."""
    ending = submit.ending
    ends = set(ending.stop_token_ids) | (set() if ending.ignore_eos else {END})
    states = chain.walk(ROOT, submit.tokens)[-1:]
    tokens: list[int] = []
    text = reason = ""
    while not reason:
        early = len(tokens) + 1 < ending.min_tokens
        position = len(submit.tokens) + len(tokens)
        token = chain.draw(states[-1], submit.sampling, choice, position, ends if early else ())
        tokens.append(token)
        states.append(chain.after(states[-1], token))
        if token in ends:
            shown = ending.include_stop and token in ending.stop_token_ids
            text, reason = text_of(tokens) if shown else text, "stop"
            continue
        before, text = len(text), text_of(tokens)
        cut = None if early else first_stop(text, before, ending.stop)
        if cut is not None:
            place, stop = cut
            text, reason = text[: place + (len(stop) if ending.include_stop else 0)], "stop"
        elif len(tokens) == ending.max_tokens:
            reason = "length"
    return Plain(tuple(tokens), text, reason, tuple(states))


def first_stop(text: str, before: int, stops: Sequence[str]) -> tuple[int, str] | None:
    """The earliest stop text that ends in `text[before:]`, and where it begins; of two the first listed."""
    found = [
        (place, order)
        for order, stop in enumerate(stops)
        if (place := text.find(stop, max(0, before - len(stop) + 1))) >= 0
    ]
    return (min(found)[0], stops[min(found)[1]]) if found else None


class _Certain(NamedTuple):
    """Rows that leave one token; a rule that takes it off has gone wrong."""

    tokens: Sequence[int]

    def usable(self, place: int) -> bool:
        return place < len(self.tokens)

    def draw(self, place: int, ids: Ids, taken: Numbers) -> int:
        if any(share >= 1 for share in taken[ids == self.tokens[place]]):
            raise Breach(f"the only token at place {place} was rejected")
        return self.tokens[place]


@dataclass
class _Coming:
    """Verdicts that are ready when the forward is done."""

    verdicts: list[Verdict]
    done: Callable[[], bool]

    def ready(self) -> bool:
        return self.done()

    def take(self) -> list[Verdict]:
        return self.verdicts


class HashWorker:
    """Runs steps: one slot for each position of each page holds the state that was computed there, twice.

    `elapse` is told how many tokens a forward has, and says whether the forward is done, whenever it is asked; `watch`
    sees every step before it runs.
    """

    def __init__(
        self,
        chain: Chain,
        pages: int,
        page_size: int,
        elapse: Callable[[int], Callable[[], bool]],
        watch: Callable[[Step], None],
        *,
        rule: Entry = RULES["match"],
    ) -> None:
        self._rule = rule
        self._decide = rule.decide(VerifierConfig(model=Path())) if rule.decide else None
        self._chain = chain
        self._page_size = page_size
        self._slots = array("Q", bytes(8 * pages * page_size))  # what the target reads
        self._beside = array("Q", bytes(8 * pages * page_size))  # what drafters are sent
        self._elapse = elapse
        self._watch = watch

    def begin(self, step: Step, _wake: object) -> Pending:
        """As a device does it: the verdicts may be on their way for a while."""
        self._watch(step)
        done = self._elapse(step.tokens)
        return _Coming(self._computed(step), done)

    def run(
        self, step: Step, reached: Callable[[int], None] = lambda _layers: None
    ) -> list[Verdict]:
        """All rows write, then all read: rows that share a page they write to ruin each other, as on a device.

        `reached` hears of each layer when it is written, and may look at the pages then.
        """
        self._watch(step)
        self._elapse(step.tokens)
        return self._computed(step, reached)

    def _computed(
        self, step: Step, reached: Callable[[int], None] = lambda _layers: None
    ) -> list[Verdict]:
        places = [place for row in step.rows for place in self._write(row)]
        reached(1)
        for place in places:
            self._beside[place] = self._slots[place]
        reached(2)
        return [self._judge(row) for row in step.rows]

    @property
    def pages(self) -> Pages:
        """Its memory, as it is handed over: two layers, of which the second is for drafters."""
        layers = (
            Layer("target", "int64", 1, 1, 0, 1, 1),
            Layer("features", "int64", 1, 1, 0, 1, 1),
        )
        memory = [np.frombuffer(each, np.uint8) for each in (self._slots, self._beside)]
        return Pages(Layout(layers, self._page_size), memory)

    def rows(self, spans: Sequence[Span]) -> list[Tensor]:
        """The states in these places of the pages, as drafters that want hidden states are sent them."""
        tensors = []
        for span in spans:
            states = [
                self._beside[
                    span.pages[position // self._page_size] * self._page_size
                    + position % self._page_size
                ]
                for position in range(span.start, span.end)
            ]
            data = b"".join(state.to_bytes(ROW_BYTES, "little") for state in states)
            tensors.append(Tensor("int64", (len(states), 1), data))
        return tensors

    def _write(self, row: Work) -> list[int]:
        """The first layer; the places that were written."""
        end = row.start + len(row.tokens)
        if len(set(row.pages)) != len(row.pages) or len(row.pages) * self._page_size < end:
            raise Breach(f"request {row.request}: pages {row.pages} for {end} positions")
        if max(row.tokens) >= self._chain.vocabulary:
            raise Breach(f"request {row.request}: token {max(row.tokens)} reached the target")
        state = self._line(row, row.start)[-1] if row.start else ROOT
        places = []
        for position, token in enumerate(row.tokens, row.start):
            state = self._chain.after(state, token)
            page, slot = divmod(position, self._page_size)
            place = row.pages[page] * self._page_size + slot
            self._slots[place] = state
            places.append(place)
        return places

    def _line(self, row: Work, end: int) -> list[int]:
        states: list[int] = []
        for page in row.pages[: -(-end // self._page_size)]:
            states += self._slots[page * self._page_size : (page + 1) * self._page_size]
        return states[:end]

    def _test(self, row: Work, states: Sequence[int], rule: Entry) -> Verdict:
        """The real rule over a target that is certain of the token that plain decoding would draw: any coin will do."""
        assert self._decide is not None
        own = [
            self._chain.draw(
                state,
                row.sampling,
                row.choice,
                row.position + index,
                row.banned if index < row.banned_draws else (),
            )
            for index, state in enumerate(states)
        ]
        guesses = guesses_of(row, laws=rule.laws)
        inside = [
            (guess.ids == token).astype(float) for guess, token in zip(guesses, own, strict=False)
        ]
        return verdict(
            row,
            guesses,
            [Mass(each, 1.0 - each.sum()) for each in inside],
            decide=self._decide,
            coins=[((mix(state, 3) >> 12) + 0.5) / 2**52 for state in states],
            drawing=_Certain(own),
        )

    def _judge(self, row: Work) -> Verdict:
        states = self._line(row, row.start + len(row.tokens))
        if not self._chain.unbroken(states):
            raise Breach(f"request {row.request}: stale or foreign KV in pages {row.pages}")
        if not row.draws:
            return Verdict()
        if self._decide is not None:
            return self._test(row, states[len(states) - row.draws :], self._rule)
        drafts = row.tokens[len(row.tokens) - row.drafts :]
        own: list[int] = []
        for index, state in enumerate(states[len(states) - row.draws :]):
            banned = row.banned if index < row.banned_draws else ()
            position = row.position + index
            own.append(self._chain.draw(state, row.sampling, row.choice, position, banned))
            if index >= row.drafts or drafts[index] != own[index]:
                return Verdict(tuple(own), index)
        raise Breach(f"request {row.request}: {row.draws} draws for {row.drafts} drafts")
