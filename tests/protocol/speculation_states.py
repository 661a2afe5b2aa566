"""What a tail does with rows and commits, a mirror with commits, a drafter with messages: told by letting it happen.

Lines are written as letters: `ab.cd` is a committed line with two guesses behind it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.mirror import Mirror
from protocol.errors import PeerError
from protocol.link import LinkUp, Received
from protocol.messages import (
    AnyMessage,
    DraftClose,
    DraftContext,
    DraftSync,
    DraftTailStream,
    Refuse,
    VerifyCommit,
)
from protocol.tensor import Tensor
from tests.drafter.test_record import OneByOne
from verifier.tail import DraftTail, Row

GRANTED: Final = 4
VOCABULARY: Final = 26
LINK: Final = 7


def letters(tokens: Sequence[int]) -> str:
    return "".join(chr(ord("a") + token) for token in tokens)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(ord(letter) - ord("a") for letter in text)


# --- the verifier's tail ----------------------------------------------------------------------------------


def _tail(*commits: str) -> DraftTail:
    """Opened at `ab`; the drafter has said `cd`, then this was committed."""
    tail = DraftTail(numbers("ab"), VOCABULARY)
    tail.grant(GRANTED)
    tail.receive(_row(2, 2, "cd"))
    for commit in commits:
        tail.commit(numbers(commit))
    return tail


def _row(base: int, start: int, tokens: str) -> DraftTailStream:
    return DraftTailStream(1, 1, base, start, numbers(tokens))


TAILS: Final[Mapping[str, Callable[[], DraftTail]]] = {
    "guesses ahead": _tail,
    "all committed": lambda: _tail("cd"),
    "owed": lambda: _tail("cde"),
    "cut": lambda: _tail("cx"),
}
ROWS: Final[Mapping[str, tuple[int, int, str]]] = {
    "base 2, from 4 on: `ef`": (2, 4, "ef"),
    "base 2, from 3 on: `x`": (2, 3, "x"),
    "base 2, from 4 on: nothing": (2, 4, ""),
    "base 3, from 3 on: `yz`": (3, 3, "yz"),
    "base 4, from 4 on: `ef`": (4, 4, "ef"),
    "base 2, from 5 on: `f` (a hole)": (2, 5, "f"),
    "base 9 (not committed)": (9, 9, ""),
    "base 2, from 4 on: `efg` (too many)": (2, 4, "efg"),
    "base 2, from 4 on: token 99": (2, 4, "\x7f\x7f"),
}


def tail() -> str:
    """A row for each row that may come, a column for each state of the tail."""
    heads = [f"{name}: {_line(make())}" for name, make in TAILS.items()]
    lines = [f"| row | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for name, row in ROWS.items():
        cells = [_taken(make(), _row(*row)) for make in TAILS.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _taken(tail: DraftTail, row: DraftTailStream) -> str:
    try:
        taken = tail.receive(row)
    except PeerError:
        return "peer fault"
    return _line(tail) if taken is Row.TAKEN else "dropped"


def _line(tail: DraftTail) -> str:
    owed = f", owed `{letters(tail.final[tail.agreed :])}`" if tail.owed else ""
    line = f"`{letters(tail.final[: tail.agreed])}.{letters(tail.ahead)}`"
    return line + owed + (", cut" if tail.cut else "")


# --- the drafter's mirror -----------------------------------------------------------------------------------


COMMITS: Final[Mapping[str, tuple[int, str]]] = {
    "from 2 on: `c`": (2, "c"),
    "from 2 on: `cde`": (2, "cde"),
    "from 2 on: `cdef` (the guesses run out)": (2, "cdef"),
    "from 2 on: `cx` (another token)": (2, "cx"),
    "from 2 on: `x`": (2, "x"),
    "from 3 on: `d` (a hole)": (3, "d"),
    "from 1 on: `b` (again)": (1, "b"),
}


def mirror() -> str:
    """A row for each commit that may come to a mirror that holds `ab.cde`."""
    lines = [
        "| commit | line | draft KV that stays | of it true | next row |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, (start, tokens) in COMMITS.items():
        held = Mirror.open(LINK, DraftSync(1, 1, (9,), numbers("ab"), 8))
        held.extend(numbers("cde"), (0.5, 0.5, 0.5))
        held.take()
        try:
            kept = held.adopt(VerifyCommit(1, 1, start, numbers(tokens), 8))
        except PeerError:
            lines.append(f"| {name} | the mirror goes: `Refuse(unknown)` | | | |")
            continue
        line = f"`{letters(held.line[: held.base])}.{letters(held.line[held.base :])}`"
        row = held.take()
        said = f"base {row.base}, from {row.start} on"
        lines.append(f"| {name} | {line} | {kept.tokens} | {kept.true} | {said} |")
    return "\n".join(lines)


# --- the drafter --------------------------------------------------------------------------------------------

STATES: Final[Mapping[str, tuple[AnyMessage, ...]]] = {
    "no mirror": (),
    "mirror of this epoch": (DraftSync(1, 2, (9,), (), 2),),
    "mirror of an older epoch": (DraftSync(1, 1, (9,), (), 2),),
}
MESSAGES: Final[Mapping[str, AnyMessage]] = {
    "`DraftSync`": DraftSync(1, 2, (9,), (), 2),
    "`DraftSync` beyond its context": DraftSync(1, 2, (9,) * 50, (), 2),
    "`VerifyCommit`": VerifyCommit(1, 2, 0, (5,), 2),
    "`VerifyCommit` with a hole": VerifyCommit(1, 2, 3, (5,), 2),
    "`DraftContext`": DraftContext(1, 2, 0, Tensor("float32", (1, 1), bytes(4))),
    "`DraftClose`": DraftClose(1, 2, "finished"),
    "what no drafter expects": DraftTailStream(1, 2, 0, 0, (5,)),
}


def drafter() -> str:
    """A row for each message of a verifier about one request, a column for each state of its mirror."""
    heads = [*STATES, "full of others", "draining"]
    lines = [f"| message | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for name, message in MESSAGES.items():
        cells = [_heard(before, message) for before in STATES.values()]
        cells.append(_heard((DraftSync(2, 1, (9,), (), 2),), message, most=1))
        cells.append(_heard((), message, draining=True))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _heard(
    before: Sequence[AnyMessage], message: AnyMessage, *, most: int = 8, draining: bool = False
) -> str:
    method = OneByOne()
    core = DrafterCore(DrafterConfig(method="suffix", max_requests=most, context=40), method)
    core.handle(LinkUp(LINK, "verifier", "v"), 0.0)
    core.handle(Received(LINK, tuple(before)), 0.0)
    core.draining = draining
    mine = core._mirrors[LINK].get(1)
    wrong = core.counters["messages_unexpected"]
    core.handle(Received(LINK, (message,)), 0.0)
    now = core._mirrors[LINK].get(1)
    refused = [each for each in core.outbox(LINK) if isinstance(each, Refuse)]
    words = []
    if mine is not None and now is not mine:
        words.append("closed")
    if now is not None and now is not mine:
        words.append("opened")
    if mine is not None and now is mine and mine.base:
        words.append("adopted")
    words += [f"`Refuse({each.code})`" for each in refused]
    words += ["counted"] * (core.counters["messages_unexpected"] > wrong)
    return ", ".join(words) or "ignored"
