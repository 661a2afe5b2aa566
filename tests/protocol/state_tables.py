"""The state tables of `docs/protocol.md`, made by letting everything happen to the code itself.

`python -m tests.protocol.state_tables` writes them anew; a test holds the file against them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from protocol.codec import HEADER, MAGIC, Kind
from protocol.messages import PROTOCOL_VERSION
from tests.generated import rewritten
from tests.protocol import link_states, speculation_states

FILE: Final = Path(__file__).parents[2] / "docs" / "protocol.md"
MAKER: Final = "tests.protocol.state_tables"


def tables() -> Mapping[str, str]:
    """Every table by its name."""
    return {
        "header": _header(),
        "dialler": link_states.dialler(),
        "answerer": link_states.answerer(),
        "tail": speculation_states.tail(),
        "mirror": speculation_states.mirror(),
        "drafter": speculation_states.drafter(),
    }


def _header() -> str:
    kinds = ", ".join(f"{kind.value} {kind.name.lower()}" for kind in Kind)
    rows = {
        "magic": (4, f"`{MAGIC.decode()}`"),
        "version": (1, f"{PROTOCOL_VERSION}; any other is refused"),
        "kind": (1, kinds),
        "tensors": (2, "how many tensor frames follow"),
        "link, link_seq, ack": (
            "8 each",
            "big-endian; link_seq is 0 in frames that are not sequenced (hello, welcome, refuse)",
        ),
    }
    assert HEADER.size == 4 + 1 + 1 + 2 + 3 * 8
    lines = [f"| {name} | {size} | {text} |" for name, (size, text) in rows.items()]
    return "\n".join(["| header field | bytes | |", "| --- | --- | --- |", *lines])


def written(text: str) -> str:
    """The file with its tables made anew."""
    return rewritten(text, tables(), MAKER)


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text(encoding="utf-8")), encoding="utf-8")
