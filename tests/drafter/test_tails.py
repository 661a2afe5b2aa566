"""Tails of heads when a newer base is known: what stays, what is taken back, and what waits."""

import numpy as np
import pytest

from drafter.guesses import Guess
from drafter.heads.tails import renewed
from drafter.mirror import Mirror
from drafter.proposers import Proposal
from protocol.laws import Law
from tests.drafter.stories import mirror_of


def drawn(*tokens: int) -> list[Guess]:
    """Each from a law of its own."""
    law = [Law(np.array([token], np.int32), np.array([1.0], np.float32)) for token in tokens]
    return [Guess(token, 0.5, each) for token, each in zip(tokens, law, strict=True)]


def certain(*tokens: int) -> list[Guess]:
    return [Guess(token, 0.5) for token in tokens]


def take(mirror: Mirror, proposal: Proposal) -> list[int]:
    mirror.extend(proposal.tokens, proposal.confidences, proposal.laws)
    return mirror.line[mirror.base :]


def test_certain_guesses_stay_while_they_are_the_same() -> None:
    mirror = mirror_of([1], ahead=8)
    assert take(mirror, renewed(mirror, certain(5, 6, 7))) == [5, 6, 7]
    assert take(mirror, renewed(mirror, certain(5, 6))) == [5, 6, 7]
    assert take(mirror, renewed(mirror, certain(5, 8))) == [5, 8]


def test_a_chain_that_grows_is_only_continued() -> None:
    mirror = mirror_of([1], ahead=8)
    chain = drawn(5, 6)
    take(mirror, renewed(mirror, chain))
    told = mirror.take()
    chain += drawn(7)
    assert renewed(mirror, chain).tokens == [7]
    assert take(mirror, renewed(mirror, chain)) == [5, 6, 7]
    assert (told.tokens, mirror.take().tokens) == ((5, 6), (7,))


@pytest.mark.parametrize("tokens", [(5, 6, 7), (5, 6, 8), (9, 9, 9)])
def test_drawn_guesses_are_replaced_whole_whatever_they_are(tokens: tuple[int, ...]) -> None:
    """Not before as many were drawn anew: until then the verifier may use the older ones."""
    mirror = mirror_of([1], ahead=8)
    old = drawn(5, 6, 7)
    take(mirror, renewed(mirror, old))
    mirror.take()
    new = drawn(*tokens)
    assert renewed(mirror, new[:2], pending=True) == Proposal(pending=True)
    assert take(mirror, renewed(mirror, new)) == list(tokens)
    assert [law is guess.law for law, guess in zip(mirror.laws, new, strict=True)] == [True] * 3
    row = mirror.take()
    assert (row.start, row.tokens) == (mirror.base, tokens)
