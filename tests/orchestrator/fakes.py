"""A verifier that answers by a script, and a front door beside it, over the in-process mesh in simulated time."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from orchestrator.front.config import FrontConfig
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Failure, Query, Reply
from orchestrator.front.node import FrontNode, Listener
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity, LinkDown, Received
from protocol.local_mesh import LocalNetwork
from protocol.messages import (
    Abort,
    AnyMessage,
    Done,
    Emit,
    Ending,
    Fingerprint,
    Heartbeat,
    Limits,
    Refuse,
    Sampling,
    Scored,
    Statistics,
    Submit,
)
from protocol.process import Peers

CONTEXT = 64
VOCABULARY = 300

Script = Callable[[Submit], Iterable[AnyMessage]]


def echo(submit: Submit) -> Iterable[AnyMessage]:
    """Every choice repeats the prompt, two tokens at a time, the second of them drafted; text is `<id>`.

    A token is half as likely as its number says; the likeliest are those above it.
    """
    for choice in range(submit.choices):
        tokens = submit.tokens[: submit.ending.max_tokens]
        for start in range(0, len(tokens), 2):
            pair = tokens[start : start + 2]
            text = "".join(f"<{token}>" for token in pair)
            yield Emit(
                submit.request,
                choice,
                pair,
                text,
                (False, True)[: len(pair)],
                scored(pair, submit.logprobs),
                scored(submit.tokens[1:], submit.prompt_logprobs) if choice + start == 0 else (),
            )
        reason = "length" if len(tokens) == submit.ending.max_tokens else "stop"
        statistics = Statistics(4, 6, 3, history=((0, 0, 1), (2, 2, 1), (2, 0, 1), (2, 1, 1)))
        yield Done(submit.request, choice, reason, len(submit.tokens), len(tokens), statistics)


def scored(tokens: Sequence[int], top: int | None) -> tuple[Scored, ...]:
    """Scores that tests can tell apart."""
    if top is None:
        return ()
    return tuple(
        Scored(-token / 2, tuple((token + rank, -rank / 8) for rank in range(1, top + 1)))
        for token in tokens
    )


def silent(_submit: Submit) -> Iterable[AnyMessage]:
    """Takes everything and says nothing."""
    return ()


def refusing(code: str, field: str = "", text: str = "no") -> Script:
    """Takes nothing."""
    return lambda submit: [Refuse(code=code, text=text, request=submit.request, field=field)]


@dataclass
class FakeVerifier:
    """What it heard is in `submits` and `aborts`; what it says is up to its script."""

    endpoint: Endpoint
    script: Script = echo
    submits: list[Submit] = field(default_factory=list)
    aborts: list[Abort] = field(default_factory=list)
    aborted: threading.Event = field(default_factory=threading.Event)
    _unsaid: dict[int, list[AnyMessage]] = field(default_factory=dict)

    def turn(self, now: float) -> None:
        """Read everything, answer what can be answered."""
        for event in self.endpoint.drain(now):
            match event:
                case Received():
                    for message in event.messages:
                        self._take(event.link, message)
                case LinkDown():
                    self._unsaid.pop(event.link, None)
                case _:
                    pass
        for link, messages in self._unsaid.items():
            if messages and self.endpoint.send(link, messages, now):
                messages.clear()

    def say(self, link: int, *messages: AnyMessage) -> None:
        self._unsaid.setdefault(link, []).extend(messages)

    def _take(self, link: int, message: AnyMessage) -> None:
        match message:
            case Submit():
                self.submits.append(message)
                self.say(link, *self.script(message))
            case Abort():
                self.aborts.append(message)
                self.aborted.set()
            case Heartbeat():
                pass
            case _:
                raise AssertionError(message)


def config(**fields: object) -> FrontConfig:
    """A front door for tests."""
    return FrontConfig.model_validate({"model": Path(), "name": "tiny", **fields})


def query(*tokens: int, choices: int = 1, max_tokens: int = 8) -> Query:
    return Query(tokens, Ending(max_tokens=max_tokens), Sampling(), choices)


class Rig:
    """A front door and its verifiers; `run` lets messages travel."""

    def __init__(self, *scripts: Script, **fields: object) -> None:
        self.now = 0.0
        self.network = LocalNetwork(lambda: self.now)
        self._numbers = count(1)
        self.heard: dict[int, list[Reply]] = {}
        identity = Identity("front", "front-0")
        self.core = FrontCore(config(**fields))
        self.node = FrontNode(
            self.core, self._endpoint("front", identity), lambda: self.now, hand_over
        )
        self.verifiers: dict[str, FakeVerifier] = {}
        for number, script in enumerate(scripts):
            self.start(f"verifier-{number}", script)
        self.node.command(Peers(tuple(self.verifiers)))
        self.run()

    def _endpoint(self, address: str, identity: Identity) -> Endpoint:
        return Endpoint(
            self.network.mesh(address), LinkConfig(), identity, lambda: next(self._numbers)
        )

    def start(self, name: str, script: Script) -> None:
        """A new verifier process at its address."""
        identity = Identity(
            role="verifier",
            node_id=name,
            fingerprint=Fingerprint(vocabulary=VOCABULARY),
            limits=Limits(context=CONTEXT),
        )
        self.verifiers[name] = FakeVerifier(self._endpoint(name, identity), script)

    def kill(self, name: str) -> None:
        """The verifier is gone without a word."""
        self.network.kill(name)
        del self.verifiers[name]

    def run(self, seconds: float = 0.1) -> None:
        """Everybody takes turns for so long."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.01
            self.node.turn()
            for verifier in self.verifiers.values():
                verifier.turn(self.now)

    def ask(self, query: Query) -> int:
        """Submit; the replies are collected in `heard`."""
        replies: list[Reply] = []
        ticket = self.node.submit(query, replies.append)
        self.heard[ticket] = replies
        return ticket

    def failure(self, ticket: int) -> Failure:
        """The only reply to a query that failed at once."""
        (failure,) = self.heard[ticket]
        assert isinstance(failure, Failure)
        return failure


def hand_over(replies: list[tuple[Listener, Reply]]) -> None:
    for listener, reply in replies:
        listener(reply)
