"""The table of channels, best first, and which one two nodes use."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kvtransfer import channel_nixl, channel_shm
from kvtransfer.channel import Receiver, Sender
from kvtransfer.channel_nixl import ReadReceiver, ReadSender
from kvtransfer.channel_shm import MemoryReceiver, MemorySender
from kvtransfer.channel_zmq import FrameReceiver, FrameSender
from protocol.errors import LocalError

log = logging.getLogger(__name__)


class Ends(NamedTuple):
    """Both ends of a channel. A receiver is made from its sender's hint; PeerError if that leads nowhere."""

    sender: Callable[[], Sender]
    receiver: Callable[[bytes], Receiver]


CHANNELS: Final[Mapping[str, Ends]] = {
    **({"shm": Ends(MemorySender, MemoryReceiver)} if channel_shm.AVAILABLE else {}),
    **({"nixl": Ends(ReadSender, ReadReceiver)} if channel_nixl.AVAILABLE else {}),
    "zmq": Ends(FrameSender, FrameReceiver),
}


def common(theirs: Iterable[str]) -> tuple[str, ...]:
    """The channels that the other node has too, in our order; what fails is followed by the next."""
    known = set(theirs)
    return tuple(name for name in CHANNELS if name in known)


def usable() -> tuple[str, ...]:
    """The channels whose sending end can be made here: a library may be installed and still not run."""
    found = []
    for name, ends in CHANNELS.items():
        try:
            ends.sender().close()
        except (LocalError, OSError) as error:
            log.warning("channel %s is left out: %s", name, error)
        else:
            found.append(name)
    return tuple(found)
