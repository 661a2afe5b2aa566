"""Errors say whose fault they are: the peer's (drop what it said) or ours (a bug: crash loudly)."""


class ProtocolError(Exception):
    """Anything that goes against the mesh protocol."""


class PeerError(ProtocolError):
    """The other side broke the protocol. The scope of the damage is the frame or the request it names."""


class LocalError(ProtocolError):
    """This side misused the protocol: never caught, never sent."""
