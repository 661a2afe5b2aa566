"""What happened, in words: frames are kept as they were sent and only decoded to be read."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from protocol.codec import Codec
from protocol.config import LinkConfig
from protocol.errors import PeerError
from protocol.mesh import Frames

WIDTH: Final = 400

Entry = tuple[float, str, str, Frames]
"""(time, from, to, frames), or (time, text, "", ())."""


def told(entries: Iterable[Entry]) -> Iterator[str]:
    """A line for each entry."""
    codec = Codec(LinkConfig())
    for time, source, target, frames in entries:
        line = source if not target else _frame(codec, source, target, frames)
        yield f"{time:9.4f}  {line[:WIDTH]}"


def _frame(codec: Codec, source: str, target: str, frames: Frames) -> str:
    try:
        frame = codec.decode(frames)
    except PeerError as error:
        return f"{source} -> {target}: {error}"
    words = " ".join(_short(message) for message in frame.messages)
    link = f"{frame.link & 0xFFFF:04x}" if frame.link else "-"
    return f"{source} -> {target}  {frame.kind.name} link {link} seq {frame.seq} ack {frame.ack}  {words}"


def _short(message: Any) -> str:  # noqa: ANN401
    """The fields that are not as they are by default."""
    fields = []
    for name, default in zip(message.__struct_fields__, _defaults(message), strict=True):
        value = getattr(message, name)
        if value != default and name != "confidences":
            fields.append(f"{name}={value}")
    return f"{type(message).__name__}({', '.join(fields)})"


def _defaults(message: Any) -> list[Any]:  # noqa: ANN401
    given = list(message.__struct_defaults__)
    return [None] * (len(message.__struct_fields__) - len(given)) + given
