"""Every interleaving of one draft tail and one mirror over two lossless queues, in a scope small enough to finish.

Tokens are 0 and 1. The confidence of a guess is a number for the line that it ends: so it tells where it was drafted.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final

from drafter.mirror import Mirror
from protocol.errors import PeerError
from protocol.messages import DraftSync, DraftTailStream, VerifyCommit
from tests.sim.breach import Breach
from verifier.tail import DraftTail


@dataclass(frozen=True, slots=True)
class Scope:
    """Bounds: output tokens committed in all, guesses wanted, re-drafts, messages under way in one direction."""

    committed: int
    wanted: int
    redrafts: int
    queue: int
    growing: bool = True  # whether what is on its way is added to the wanted guesses


Story = tuple["Story | None", str]
_DRAFTER: Final = ("draft 0", "draft 1", "redraft", "say", "hear a commit")


@dataclass(slots=True)
class Pair:
    """A verifier's tail, a drafter's mirror, and what is on its way between them."""

    tail: DraftTail
    mirror: Mirror
    told: int = 0
    redrafts: int = 0
    commits: tuple[VerifyCommit, ...] = ()
    rows: tuple[DraftTailStream, ...] = ()
    story: "Story | None" = None

    @classmethod
    def begin(cls, scope: Scope) -> "Pair":
        sync = DraftSync(1, 1, (0,), (), scope.wanted)
        tail = DraftTail((), 2)
        tail.grant(scope.wanted)
        return cls(tail, Mirror.open(1, sync))

    def after(self, step: str) -> "Pair":
        """A copy, to be changed by `step`, which is one of the drafter's or of the verifier's."""
        pair = copy(self)
        pair.story = (self.story, step)
        if step in _DRAFTER:
            pair.mirror = copy(self.mirror)
            pair.mirror.line = list(self.mirror.line)
            pair.mirror.confidences = list(self.mirror.confidences)
        else:
            pair.tail = copy(self.tail)
            pair.tail.final = list(self.tail.final)
            pair.tail.ahead = list(self.tail.ahead)
            pair.tail.confidences = list(self.tail.confidences)
        return pair

    def told_story(self) -> str:
        """The steps that led here."""
        steps: list[str] = []
        story = self.story
        while story is not None:
            story, step = story
            steps.append(step)
        return ", ".join(reversed(steps))

    @property
    def key(self) -> Hashable:
        """Equal for states that behave alike."""
        tail, mirror = self.tail, self.mirror
        return (
            (*tail.final, None, *tail.ahead, None, *tail.confidences),
            (tail.agreed, tail.cut, tail.base, tail.granted),
            (*mirror.line, None, *mirror.confidences),
            (mirror.base, mirror.max_ahead, mirror.said, mirror.said_base),
            (self.told, self.redrafts),
            self.commits,
            self.rows,
        )


def explore(scope: Scope) -> int:
    """Visit every state; the number of states. A Breach tells the steps that led to it."""
    first = Pair.begin(scope)
    seen = {first.key}
    todo = deque([first])
    while todo:
        for pair in _followers(todo.popleft(), scope):
            if pair.key not in seen:
                seen.add(pair.key)
                _check(pair, scope)
                todo.append(pair)
    return len(seen)


def _followers(pair: Pair, scope: Scope) -> Iterator[Pair]:
    yield from _drafter(pair, scope)
    yield from _verifier(pair, scope)


def _drafter(pair: Pair, scope: Scope) -> Iterator[Pair]:
    mirror = pair.mirror
    if mirror.room:
        for token in (0, 1):
            longer = pair.after(f"draft {token}")
            longer.mirror.extend([token], [_number((*mirror.line, token))])
            yield longer
    if len(mirror.line) > mirror.base and pair.redrafts < scope.redrafts:
        start = len(mirror.line) - 1
        token = 1 - mirror.line[start]
        other = pair.after("redraft")
        other.redrafts += 1
        other.mirror.replace(start, [token], [_number((*mirror.line[:start], token))])
        yield other
    if mirror.unsaid and len(pair.rows) < scope.queue:
        said = pair.after("say")
        said.rows = (*pair.rows, said.mirror.take())
        yield said
    if pair.commits:
        adopted = pair.after("hear a commit")
        adopted.commits = pair.commits[1:]
        adopted.mirror.adopt(pair.commits[0])
        yield adopted


def _verifier(pair: Pair, scope: Scope) -> Iterator[Pair]:
    tail = pair.tail
    for accepted in range(min(len(tail.ahead), scope.committed - tail.committed - 1) + 1):
        if tail.committed + accepted < scope.committed:
            for token in (0, 1):
                more = pair.after(f"commit {accepted} and {token}")
                more.tail.commit([*tail.ahead[:accepted], token])
                yield more
    if pair.told < tail.committed and len(pair.commits) < scope.queue:
        told = pair.after("tell")
        outstanding = tail.committed - tail.base if scope.growing and tail.base >= 0 else 0
        max_ahead = scope.wanted + outstanding
        final = tuple(tail.final[pair.told :])
        told.commits = (*pair.commits, VerifyCommit(1, 1, pair.told, final, max_ahead))
        told.told = tail.committed
        told.tail.grant(max_ahead)
        yield told
    if pair.rows:
        heard = pair.after(f"hear {pair.rows[0].start}:{pair.rows[0].tokens}")
        heard.rows = pair.rows[1:]
        try:
            heard.tail.receive(pair.rows[0])
        except PeerError as error:
            raise Breach(f"honest, and faulted: {error} after {heard.told_story()}") from error
        yield heard


def _check(pair: Pair, scope: Scope) -> None:
    tail, mirror = pair.tail, pair.mirror
    if tail.ahead and tail.owed:
        raise Breach(f"ahead and owed after {pair.told_story()}")
    drafted = [_number((*tail.final, *tail.ahead[: n + 1])) for n in range(len(tail.ahead))]
    if tail.ahead and tail.confidences != drafted:
        raise Breach(f"{tail.ahead} was drafted elsewhere after {pair.told_story()}")
    if len(tail.ahead) > tail.granted or len(mirror.line) - mirror.base > tail.granted:
        raise Breach(f"more guesses than granted after {pair.told_story()}")
    if mirror.line[: mirror.base] != tail.final[: mirror.base]:
        raise Breach(f"another output mirrored after {pair.told_story()}")
    quiet = not (pair.rows or pair.commits or mirror.unsaid or pair.told < tail.committed)
    line = tail.final[: tail.agreed] + tail.ahead
    if quiet and (line, tail.base, tail.cut) != (mirror.line, mirror.base, False):
        raise Breach(f"quiet, and {line} is not {mirror.line} after {pair.told_story()}")
    if scope.committed < tail.committed:
        raise Breach(f"out of scope after {pair.told_story()}")


def _number(line: tuple[int, ...]) -> float:
    """A number of its own for every line, between 0 and 1."""
    number = 1
    for token in line:
        number = 2 * number + token
    return number / (1 << 40)
