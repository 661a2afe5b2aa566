"""A verifier and two drafters as real processes, each drafter behind a relay; the front door is whoever measures.

Two requests run at any time: when one ends, the next one begins. What comes is noted with its time, and whether drafts
were in it.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from orchestrator.bench.relay import Relay
from orchestrator.bench.rtt import ready
from orchestrator.config import Config
from orchestrator.launch.plan import Child, children
from orchestrator.launch.process import Process
from orchestrator.launch.threads import usable_cores
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity, LinkUp, Received
from protocol.loop import pause
from protocol.messages import Done, DraftClose, DraftSync, Emit, Ending, Submit
from protocol.runtime import clock, draw
from protocol.zmq_mesh import ZmqMesh
from tests.chaos.run import DRAFTED
from tests.models import write_byte_llama

VICTIM, OTHER = "drafter-0", "drafter-1"
PROMPT: Final = (7, 8, 9) * 6
TOKENS: Final = 900
AT_ONCE: Final = 2
FURTHER: Final = 0.002
"""Seconds that the way to the other drafter takes more, so that all begin with the victim."""
PATIENCE: Final = 60.0


@dataclass
class Line:
    """One of the two places for requests: when its pieces came, and when those with drafts did.

    `looked` is when was looked for each of the pieces before in vain: the wait for it was no shorter than until then.
    """

    tokens: int = 0
    pieces: list[float] = field(default_factory=list)
    looked: list[float] = field(default_factory=list)
    drafted: list[float] = field(default_factory=list)


class Ground:
    """`victim` are settings of the first drafter. The second one is dialled if `other`."""

    def __init__(self, folder: Path, victim: Mapping[str, object], *, other: bool) -> None:
        self.lines = [Line() for _ in range(AT_ONCE)]
        self._folder = folder
        self._number = count(1)
        self._looked = clock()
        self._asked: dict[int, Line] = {}
        fields = {"target": str(folder), "dtype": "float32", "method": "standalone"}
        config = Config.model_validate({**fields, "draft_length": 4, "drafters": 2, **DRAFTED})
        planned = {
            each.name: each
            for each in children(config, folder, folder, usable_cores())
            if each.role != "front"
        }
        first = planned[VICTIM]
        planned[VICTIM] = replace(first, config=first.config.model_copy(update=victim))
        self._children: dict[str, Child] = planned
        self._processes = {name: self._spawn(name) for name in planned}
        self.addresses = {
            name: str(ready(each, name)["address"]) for name, each in self._processes.items()
        }
        self.relays = {name: self._relay(self.addresses[name]) for name in (VICTIM, OTHER)}
        self.relays[OTHER].wire.delay = FURTHER / 2
        names = (VICTIM, OTHER) if other else (VICTIM,)
        peers = [self.relays[name].address for name in names]
        self._processes["verifier-0"].tell({"peers": peers})
        self.front = self._endpoint("front")
        self.front.dial(self.addresses["verifier-0"], clock())

    def _spawn(self, name: str) -> Process:
        return Process(self._children[name], self._folder / f"{name}.log")

    @staticmethod
    def _relay(address: str) -> Relay:
        place = urlsplit(address)
        assert place.hostname
        assert place.port
        return Relay(place.hostname, place.port)

    @staticmethod
    def _endpoint(role: str) -> Endpoint:
        mesh = ZmqMesh("tcp://127.0.0.1:*")
        return Endpoint(mesh, LinkConfig(), Identity(role, role), draw)

    # --- traffic --------------------------------------------------------------------------------

    def until(self, true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Listen until it is true; False if that takes longer."""
        end = clock() + seconds
        while not true():
            now = clock()
            if now >= end:
                return False
            for event in self.front.drain(now):
                match event:
                    case LinkUp():
                        self._ask(event.link, self.lines)
                    case Received():
                        for message in event.messages:
                            self._hear(event.link, message, now)
            self._looked = now
            pause(self.front, clock, min(end, now + 0.02))
        return True

    def _ask(self, link: int, lines: list[Line]) -> None:
        submits = []
        for line in lines:
            number = next(self._number)
            self._asked[number], line.tokens = line, 0
            submits.append(Submit(number, PROMPT, Ending(TOKENS, ignore_eos=True)))
        assert self.front.send(link, submits, clock())

    def _hear(self, link: int, message: object, now: float) -> None:
        match message:
            case Emit():
                line = self._asked[message.request]
                line.tokens += len(message.tokens)
                line.pieces.append(now)
                line.looked.append(self._looked)
                if any(message.drafted):
                    line.drafted.append(now)
            case Done(reason="length"):
                self._ask(link, [self._asked.pop(message.request)])
            case Done():
                raise AssertionError(f"a request failed: {message}")

    # --- what happens to the victim ----------------------------------------------------------------

    def signal(self, number: int) -> None:
        os.kill(self._processes[VICTIM].pid, number)

    def drain(self) -> None:
        self._processes[VICTIM].tell({"drain": True})

    def restart(self) -> None:
        """A new process at the victim's address; listens until that says that it is ready."""
        former = self._processes[VICTIM]
        self.signal(signal.SIGKILL)
        assert self.until(lambda: former.read() is None), "the victim does not die"
        former.reap()
        first = self._children[VICTIM]
        again = first.config.model_copy(update={"bind": self.addresses[VICTIM]})
        self._children[VICTIM] = replace(first, config=again)
        process = self._processes[VICTIM] = self._spawn(VICTIM)
        said: list[str] = []

        def is_ready() -> bool:
            said.extend(line["state"] for line in process.read() or ())
            return "ready" in said

        assert self.until(is_ready), "the victim did not come back"

    def rival(self) -> Callable[[], None]:
        """Another verifier takes a place at the victim, which is full; what is returned gives it back."""
        rival = self._endpoint("verifier")
        rival.dial(self.addresses[VICTIM], clock())
        self.until(lambda: bool(rival.drain(clock())))
        [link] = rival.links
        assert rival.send(link, [DraftSync(1, 1, PROMPT, (), 1)], clock())

        def leave() -> None:
            rival.drain(clock())
            rival.send(link, [DraftClose(1, 1)], clock())
            rival.close()

        return leave

    def close(self) -> None:
        self.front.close()
        for relay in self.relays.values():
            relay.close()
        for process in self._processes.values():
            process.kill()
            process.reap()


def target(folder: Path) -> Path:
    """A model that is its own drafter: all of its guesses are right."""
    folder.mkdir(exist_ok=True)
    write_byte_llama(folder)
    return folder
