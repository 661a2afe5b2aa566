"""What is asked in a history, and what the answers must be: whatever a client hears is compared with plain decoding."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from protocol.messages import Done, Emit, Submit
from tests.sim.breach import Breach
from tests.sim.model import Chain, Plain, plain, text_of

ENDED_WITHIN = 0.8
"""Seconds between an `Abort` or a deadline and the end, when nothing is in the way."""


class State(StrEnum):
    """Where an ask stands."""

    NEW = "new"
    SENT = "sent"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"  # its link, or its front door, went


@dataclass(slots=True)
class Heard:
    """What was heard of one choice."""

    tokens: list[int] = field(default_factory=list)
    marks: list[bool] = field(default_factory=list)
    text: str = ""
    done: Done | None = None


@dataclass(slots=True, eq=False)
class Ask:
    """One request of a history. `refusals` are the codes that it may be answered with; `cancel_at` aborts it."""

    submit: Submit
    begin: float
    cancel_at: float = float("inf")
    refusals: frozenset[str] = frozenset()
    state: State = State.NEW
    link: int = 0
    verifier: str = ""
    sent_at: float = 0.0
    cancelled: float | None = None  # when that was said
    heard: dict[int, Heard] = field(default_factory=dict)
    plains: dict[int, Plain] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.state not in {State.NEW, State.SENT}

    @property
    def accepted(self) -> int:
        """Accepted drafts that its answers report."""
        done = [heard.done for heard in self.heard.values() if heard.done]
        return sum(each.statistics.accepted for each in done)

    def plain(self, chain: Chain, choice: int) -> Plain:
        """What plain decoding answers."""
        if choice not in self.plains:
            self.plains[choice] = plain(chain, self.submit, choice)
        return self.plains[choice]


@dataclass(slots=True)
class Setting:
    """What a front door shares with its history."""

    clock: Callable[[], float]
    chain: Chain
    pick: Callable[[int], int]  # below n
    excused: Callable[[str], bool]  # may a link with this verifier end?
    hindered: Callable[[str], bool]  # may this verifier be slow?
    answered: dict[tuple[int, int], Ask]  # by (link, request)


class Examiner:
    """Judges every word of the service to one front door."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def refused(self, ask: Ask, code: str) -> None:
        """The whole ask was refused."""
        draining = code == "draining" and self._setting.excused(ask.verifier)
        if ask.heard or ask.over or not (draining or code in ask.refusals):
            raise Breach(f"request {ask.submit.request} was refused: {code}")
        ask.state = State.REFUSED

    def lost(self, ask: Ask, why: str) -> None:
        """Its verifier is gone."""
        if not self._setting.excused(ask.verifier):
            raise Breach(f"the link with {ask.verifier} ended without a fault: {why}")
        ask.state = State.FAILED

    def answered(self, ask: Ask, message: Emit | Done) -> None:
        """More of a choice, or its end."""
        choice = message.choice
        heard = ask.heard.setdefault(choice, Heard())
        where = f"request {ask.submit.request} choice {choice}"
        if "invalid" in ask.refusals:
            raise Breach(f"{where}: an invalid request was served")
        if heard.done or choice >= ask.submit.choices or ask.state is not State.SENT:
            raise Breach(f"{where}: {message} after its end")
        if isinstance(message, Emit):
            self._more(where, ask, heard, message)
            return
        heard.done = message
        self._in_time(where, ask)
        self._whole(where, ask, heard, message)
        self._counts(where, ask, heard, message)
        if len(ask.heard) == ask.submit.choices and all(each.done for each in ask.heard.values()):
            ask.state = State.DONE

    def _more(self, where: str, ask: Ask, heard: Heard, emit: Emit) -> None:
        heard.tokens += emit.tokens
        heard.marks += emit.drafted
        heard.text += emit.text
        wanted = ask.plain(self._setting.chain, emit.choice).tokens
        if tuple(heard.tokens) != wanted[: len(heard.tokens)]:
            raise Breach(f"{where}: {heard.tokens}, not {wanted}")

    def _in_time(self, where: str, ask: Ask) -> None:
        ends = [float("inf") if ask.cancelled is None else ask.cancelled]
        if ask.submit.deadline is not None:
            ends.append(ask.sent_at + ask.submit.deadline)
        late = self._setting.clock() > min(ends) + ENDED_WITHIN
        if late and not self._setting.hindered(ask.verifier):
            raise Breach(f"{where}: ends long after its Abort or deadline")

    def _whole(self, where: str, ask: Ask, heard: Heard, done: Done) -> None:
        if done.reason == "abort":
            late = ask.submit.deadline is not None and (
                self._setting.clock() >= ask.begin + ask.submit.deadline
            )
            late = late or self._setting.excused(ask.verifier)  # its clock may have jumped
            if ask.cancelled is None and not (late and done.detail == "deadline"):
                raise Breach(f"{where}: aborted ({done.detail}), and nobody asked for it")
            if heard.text != text_of(heard.tokens):
                raise Breach(f"{where}: text {heard.text!r} of {heard.tokens}")
            return
        plain = ask.plain(self._setting.chain, done.choice)
        wanted = (plain.tokens, plain.text, plain.reason)
        whole = (tuple(heard.tokens), heard.text, done.reason)
        if whole != wanted:
            raise Breach(f"{where}: {whole}, not {wanted}")

    @staticmethod
    def _counts(where: str, ask: Ask, heard: Heard, done: Done) -> None:
        counts, size = done.statistics, len(heard.tokens)
        if (done.prompt_tokens, done.output_tokens) != (len(ask.submit.tokens), size):
            raise Breach(f"{where}: usage of {done} for {size} tokens")
        most = counts.accepted + counts.rounds
        exact = done.reason != "stop"
        if not counts.rounds <= size <= most or (exact and size != most):
            raise Breach(f"{where}: {counts} for {size} tokens")
        if counts.accepted > counts.drafted or sum(heard.marks) > counts.accepted:
            raise Breach(f"{where}: {counts} for {sum(heard.marks)} marked tokens")
        if len(heard.marks) != size or counts.cached_tokens >= len(ask.submit.tokens):
            raise Breach(f"{where}: {len(heard.marks)} marks, {counts.cached_tokens} cached")
