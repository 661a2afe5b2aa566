"""What a drafter does first that needs its target's embedding and output matrix, and has no folder of it.

It lets verifiers dial it as a `fetcher`, asks the first one that comes, and keeps what it is sent by the hash of the
weights. Then it begins anew, as a drafter, with that folder. A transfer that broke goes on where it broke.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from drafter.config import DrafterConfig
from engine.constants import IMAGE, unpack
from engine.errors import EngineError
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.link import Event, Identity, LinkDown, LinkUp, Received
from protocol.loop import log_links, pause, say
from protocol.messages import AnyMessage, Blob, Heartbeat, Refuse
from protocol.process import Command, Control, Drain, Peers, Stop, announce
from protocol.rundir import cache_folder
from protocol.runtime import clock, draw, run
from protocol.zmq_mesh import ZmqMesh

ROLE: Final = "fetcher"

log = logging.getLogger(__name__)


class Shelf(Protocol):
    """Where images are kept, by hash."""

    def size(self, weights: str) -> int:
        """Bytes that are there."""

    def put(self, weights: str, data: bytes) -> None:
        """More of them."""

    def finish(self, weights: str) -> None:
        """All are there. EngineError: they are no image of these weights, and are gone again."""

    def finished(self, weights: str) -> bool: ...


class Fetching:
    """Asks one verifier after another until an image is complete. Pure but for the shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.got = ""  # the hash of what is complete
        self._shelf = shelf
        self._links: dict[int, str] = {}  # hash of the weights there
        self._asked: int | None = None
        self._ask: list[AnyMessage] = []

    def handle(self, event: Event) -> None:
        """Take one event of a link; never raises for what a peer did."""
        match event:
            case LinkUp(role="verifier"):
                self._links[event.link] = event.fingerprint.weights
                self._choose()
            case LinkDown():
                self._leave(event.link)
            case Received(link=link) if link == self._asked:
                for message in event.messages:
                    self._hear(link, message)
            case _:
                pass

    def _hear(self, link: int, message: AnyMessage) -> None:
        weights = self._links.get(link, "")
        match message:
            case Blob() if self._asked == link and not self.got:
                known = self._shelf.size(weights)
                fits = message.hash == weights and message.offset == known
                if fits and known == message.length > 0 and not message.data:
                    self._finish(link, weights)  # all of it was here, only never unpacked
                    return
                if not fits or not message.data or message.offset >= message.length:
                    log.warning("a piece of weights %s does not fit what is here", message.hash)
                    self._leave(link)
                    return
                self._shelf.put(weights, message.data)
                if message.offset + len(message.data) >= message.length:
                    self._finish(link, weights)
            case Refuse():
                log.warning("the target's constants were refused: %s", message.text)
                self._leave(link)

    def _finish(self, link: int, weights: str) -> None:
        try:
            self._shelf.finish(weights)
        except EngineError as error:
            log.warning("what was sent is thrown away: %s", error)
            self._leave(link)
        else:
            self.got = weights

    def _leave(self, link: int) -> None:
        """This verifier cannot help, or not any more; it may when it comes again."""
        self._links.pop(link, None)
        if self._asked == link:
            self._asked = None
            self._ask.clear()
            self._choose()

    def _choose(self) -> None:
        for link, weights in self._links.items():
            if self._asked is not None or self.got or not weights.isalnum():
                continue  # what is no hash names no folder
            if self._shelf.finished(weights):
                self.got = weights
                return
            self._asked = link
            self._ask = [Blob(weights, self._shelf.size(weights), 0, b"")]

    # --- what its loop asks (`protocol.loop.Speaker`) -------------------------------------------

    @property
    def links_with_news(self) -> list[int]:
        return [self._asked] if self._asked is not None and self._ask else []

    def outbox(self, _link: int) -> list[AnyMessage]:
        ask, self._ask = self._ask, []
        return ask

    def heartbeat(self) -> Heartbeat:
        return Heartbeat("fetching")


class Folder:
    """A shelf of folders, one for each hash; what is not complete has another name."""

    def __init__(self, root: Path, owner: str) -> None:
        self._root = root
        self._owner = owner  # others of this machine may be fetching the same

    def folder(self, weights: str) -> Path:
        if not weights.isalnum():
            raise LocalError(f"no hash: {weights!r}")
        return self._root / weights

    def _part(self, weights: str) -> Path:
        return self.folder(weights) / f"{self._owner}.part"

    def size(self, weights: str) -> int:
        part = self._part(weights)
        return part.stat().st_size if part.is_file() else 0

    def put(self, weights: str, data: bytes) -> None:
        part = self._part(weights)
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            file.write(data)

    def finish(self, weights: str) -> None:
        part = self._part(weights)
        whole = part.rename(part.with_name(IMAGE))
        try:
            unpack(whole.parent, weights)
        except EngineError:
            whole.unlink()
            raise

    def finished(self, weights: str) -> bool:
        return (self.folder(weights) / "config.json").is_file()


class FetchNode:
    """The loop around `Fetching`; `stopped` says that it is over, with something or without."""

    def __init__(self, core: Fetching, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self.core = core
        self.endpoint = endpoint
        self.stopped = False
        self.serving = True
        self._clock = clock

    def command(self, command: Command) -> None:
        match command:
            case Drain() | Stop():
                self.stopped = True
            case Peers():
                pass

    def turn(self) -> bool:
        now = self._clock()
        events = self.endpoint.drain(now)
        log_links(log, events)
        for event in events:
            self.core.handle(event)
        say(self.core, self.endpoint, now)
        self.stopped = self.stopped or bool(self.core.got)
        return bool(events)

    def pause(self) -> None:
        pause(self.endpoint, self._clock)


def fetch(config: DrafterConfig, control: Control) -> DrafterConfig | None:
    """The same configuration with a `target`, at the address that verifiers know; None: it was told to stop."""
    shelf = Folder(config.hidden.constants or cache_folder() / "constants", config.node_id)
    identity = Identity(role=ROLE, node_id=config.node_id, method=config.method)
    endpoint = Endpoint(ZmqMesh(config.bind, config.mesh), config.link, identity, draw)
    node = FetchNode(Fetching(shelf), endpoint, clock)
    control.on_command(endpoint.mesh.wake)
    address = endpoint.mesh.address
    announce("fetching", node_id=config.node_id, address=address)
    log.info("no target folder: a verifier will be asked for what the head shares with it")
    try:
        run(node, control, config.drain_seconds)
    finally:
        endpoint.close()
    if not node.core.got:
        return None
    folder = shelf.folder(node.core.got)
    log.info("embedding and output matrix of weights %s are in %s", node.core.got, folder)
    return config.model_copy(update={"target": folder, "bind": address})
