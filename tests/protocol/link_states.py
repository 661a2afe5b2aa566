"""What each side of a link does with each event in each state, told by letting it happen."""

from collections.abc import Callable, Mapping
from typing import Final

from protocol.codec import Frame, Kind
from protocol.link import Answerer, Dialler, Event, Identity, LinkDown, Outgoing, Received
from protocol.messages import AnyMessage, Fingerprint, Heartbeat, Hello, Refuse, Welcome, Window
from tests.protocol.pair import CONFIG, Pair

NONE: Final = "no link"
LINK: Final = "linked"
OURS: Final = Fingerprint("w", "t", 100)
WINDOW: Final = Window(8, 1 << 16)
FIRST_DIAL, FIRST_LINK = 100, 500
SOON: Final = 0.1

Side = Dialler | Answerer
Done = tuple[list[Event], list[Outgoing]]
"""What happened, and what is said."""
Happen = Callable[[Side], Done]


def _arrives(
    kind: Kind, *messages: AnyMessage, link: int = 0, seq: int = 0, ack: int = 0
) -> Happen:
    frame = Frame(kind, link, seq, ack, messages, size=10)
    return lambda side: side.receive(frame, SOON)


def _welcome(dial: int) -> Happen:
    return _arrives(
        Kind.WELCOME, Welcome(dial, FIRST_LINK, "drafter", "d", WINDOW), link=FIRST_LINK
    )


def _hello(dial: int, tokenizer: str = "t") -> Happen:
    own = Fingerprint("w", tokenizer, 100)
    return _arrives(Kind.HELLO, Hello(dial, "verifier", "v", fingerprint=own, window=WINDOW))


def _twice(happen: Happen) -> Happen:
    return lambda side: (happen(side), happen(side))[1]


def _after(seconds: float) -> Happen:
    return lambda side: side.tick(seconds, Heartbeat())


NEXT: Final = _arrives(Kind.DATA, link=FIRST_LINK, seq=1)
ON_A_LINK: Final[Mapping[str, Happen]] = {
    "the next frame of this link": NEXT,
    "a frame of this link that was read already": _twice(NEXT),
    "a frame behind a hole": _arrives(Kind.DATA, link=FIRST_LINK, seq=2),
    "an `ack` of what was never said": _arrives(Kind.DATA, link=FIRST_LINK, seq=1, ack=99),
    "`Refuse(link)` that bears this link": _arrives(Kind.REFUSE, Refuse("link"), link=FIRST_LINK),
    "nothing was read for `silence`": _after(CONFIG.silence + 0.01),
}
ALWAYS: Final[Mapping[str, Happen]] = {
    "a frame of another link": _arrives(Kind.DATA, link=FIRST_LINK + 1, seq=1),
    "`Refuse(link)` that bears another": _arrives(Kind.REFUSE, Refuse("link"), link=FIRST_LINK + 1),
    "a beat has passed": _after(CONFIG.beat),
}
DIALLER: Final[Mapping[str, Happen]] = {
    "`Welcome` of the present dial": _welcome(FIRST_DIAL),
    "`Welcome` of another dial": _welcome(99),
    "`Refuse(mismatch)`": _arrives(Kind.REFUSE, Refuse("mismatch", "x here, y there")),
    **ALWAYS,
    **ON_A_LINK,
}
ANSWERER: Final[Mapping[str, Happen]] = {
    "`Hello` of a dial it is not on": _hello(FIRST_DIAL + 1),
    "`Hello` of the dial it is on": _hello(FIRST_DIAL),
    "`Hello` that cannot be served": _hello(FIRST_DIAL, "another"),
    **ALWAYS,
    **ON_A_LINK,
}
ONLY_LINKED: Final = {"`Hello` of the dial it is on", *ON_A_LINK}
"""What cannot be without a link."""


def dialler() -> str:
    """The table of the dialling side."""
    return _table(DIALLER, lambda pair: pair.dialler)


def answerer() -> str:
    """The table of the side that is dialled."""
    return _table(ANSWERER, lambda pair: pair.answerer)


def _table(events: Mapping[str, Happen], side_of: Callable[[Pair], Side]) -> str:
    lines = [f"| what comes | {NONE} | {LINK} |", "| --- | --- | --- |"]
    for name, happen in events.items():
        cells = [
            "" if state == NONE and name in ONLY_LINKED else _cell(state, happen, side_of)
            for state in (NONE, LINK)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(state: str, happen: Happen, side_of: Callable[[Pair], Side]) -> str:
    pair = Pair(theirs=Identity("drafter", "drafter-0", OURS))
    if state == LINK:
        pair.tick()
    side, number = side_of(pair), _number(pair)
    dial = pair.dialler.dial
    events, said = happen(side)
    words = [_event(each) for each in events]
    if side is pair.dialler and pair.dialler.dial != dial:
        words.append("a new dial")
    words += [f"says `{_said(each)}`" for each in said]
    now = side.channel.link if side.channel else None
    words += [f"then **{LINK if now else NONE}**"] * (now != number)
    return ", ".join(words) or "dropped"


def _number(pair: Pair) -> int | None:
    return pair.answerer.channel.link if pair.answerer.channel else None


def _event(event: Event) -> str:
    match event:
        case LinkDown():
            return f"the link is over (`{event.reason}`)"
        case Received():
            return "read"
    return f"`{type(event).__name__}`"


def _said(outgoing: Outgoing) -> str:
    match outgoing.messages:
        case (Refuse() as refuse,):
            return f"Refuse({refuse.code})"
        case (message,):
            return type(message).__name__
    return outgoing.kind.name
