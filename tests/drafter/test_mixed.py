"""One drafter, several methods: who drafts is decided by what was accepted, before anything is drawn."""

from collections.abc import Sequence

import numpy as np
import pytest

from drafter.config import DrafterConfig
from drafter.mirror import Kept, Mirror
from drafter.proposers import PROPOSERS, Proposal
from drafter.proposers.mixed import PROBE_EVERY, MixedProposer
from protocol.laws import Law
from protocol.tensor import Tensor
from tests.drafter.stories import commit, guess, mirror_of

ROWS = Tensor("float32", (1, 1), bytes(4))


class Method:
    """Guesses one token for ever; its KV is a set of mirrors."""

    def __init__(self, token: int, needs: tuple[str, ...] = (), context: int = 0) -> None:
        self.token = token
        self.needs = needs
        self.context = context
        self.open_ones: set[Mirror] = set()
        self.rows: list[int] = []

    def open(self, mirror: Mirror) -> None:
        self.open_ones.add(mirror)

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        assert mirror in self.open_ones
        assert kept.true <= mirror.base

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [Proposal([self.token] * want, [0.5] * want) for _, want in wants]

    def close(self, mirror: Mirror) -> None:
        self.open_ones.discard(mirror)

    def hidden(self, mirror: Mirror, start: int, rows: Tensor) -> None:
        assert mirror in self.open_ones
        assert rows is ROWS
        self.rows.append(start)


def round_of(mixed: MixedProposer, mirror: Mirror, right: int) -> int:
    """Draft three tokens, commit four of `right`; whose guesses they were."""
    mirror.replace(mirror.base, (), ())
    (token, *_) = guess(mixed, mirror, 3)
    commit(mixed, mirror, [right] * 4)
    return token


def test_each_is_tried_then_the_better_one_drafts() -> None:
    mixed = MixedProposer({"seven": Method(7), "eight": Method(8)})
    mirror = mirror_of([1], ahead=3)
    mixed.open(mirror)
    assert [round_of(mixed, mirror, 8) for _ in range(8)] == [7, 8, 8, 8, 8, 8, 8, 8]
    assert [round_of(mixed, mirror, 7) for _ in range(8)] == [8] * 8
    assert round_of(mixed, mirror, 7) == 7  # the other one's turn, after sixteen rounds
    assert [round_of(mixed, mirror, 7) for _ in range(4)] == [7, 7, 7, 7]


def test_mirrors_choose_for_themselves() -> None:
    mixed = MixedProposer({"seven": Method(7), "eight": Method(8)})
    mirrors = [mirror_of([1], ahead=3, request=number) for number in (1, 2)]
    for mirror in mirrors:
        mixed.open(mirror)
    for _ in range(4):
        said = [round_of(mixed, mirror, 7 + index) for index, mirror in enumerate(mirrors)]
    assert said == [7, 8]
    proposals = mixed.propose([(mirror, 2) for mirror in mirrors])
    assert [proposal.tokens for proposal in proposals] == [[7, 7], [8, 8]]


def test_it_needs_what_its_methods_need_and_hands_rows_to_those() -> None:
    plain, reader = Method(7, context=90), Method(8, needs=("hidden states 1",), context=50)
    mixed = MixedProposer({"plain": plain, "reader": reader})
    assert (mixed.needs, mixed.context) == (("hidden states 1",), 50)
    mirror = mirror_of([1])
    mixed.open(mirror)
    mixed.hidden(mirror, 3, ROWS)
    assert reader.rows == [3]
    mixed.close(mirror)
    assert not plain.open_ones | reader.open_ones


def test_the_table_makes_one_of_configured_methods() -> None:
    mixed = PROPOSERS["mixed"](DrafterConfig(method="mixed", mixed=("suffix", "ngram")))
    mirror = mirror_of([1, 2, 3, 4, 1, 2, 3])
    mixed.open(mirror)
    assert guess(mixed, mirror, 1) == [4]
    with pytest.raises(ValueError, match="mixed cannot hold sufix, only suffix"):
        PROPOSERS["mixed"](DrafterConfig(method="mixed", mixed=("sufix",)))
    assert PROBE_EVERY > 2


class Draws(Method):
    """Draws its token from a law of two."""

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        law = Law(np.array([self.token, 9], np.int32), np.array([0.75, 0.25], np.float32))
        return [Proposal([self.token] * n, [0.75] * n, laws=[law] * n) for _, n in wants]


def test_guesses_that_were_not_drawn_are_certain_beside_drawn_ones() -> None:
    mixed = MixedProposer({"draws": Draws(7), "certain": Method(8)})
    mirror = mirror_of([1], ahead=4)
    mixed.open(mirror)

    def draft(count: int) -> None:
        [made] = mixed.propose([(mirror, count)])
        mirror.extend(made.tokens, made.confidences, made.laws)

    draft(3)
    commit(mixed, mirror, [7])  # and now it is the other one's turn
    draft(2)
    assert mirror.line == [7, 7, 7, 8, 8]
    assert [law.ids.tolist() for law in mirror.laws] == [[7, 9], [7, 9], [8], [8]]
    assert [law.shares.tolist() for law in mirror.laws] == [[0.75, 0.25]] * 2 + [[1.0]] * 2
    commit(mixed, mirror, [7, 7, 8])
    mirror.extend([7], [0.5], [Law(np.array([7], np.int32), np.array([1.0], np.float32))])
    assert len(mirror.laws) == len(mirror.line) - mirror.base
