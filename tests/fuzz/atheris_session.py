"""Coverage-guided fuzzing of a drafter and a verifier with links, for an environment of its own that has Atheris:

python -m venv /tmp/atheris && /tmp/atheris/bin/pip install atheris msgspec pydantic numpy ...
PYTHONPATH=. /tmp/atheris/bin/python tests/fuzz/atheris_session.py -runs=100000 -max_len=4096

The bytes decide what the stranger of `tests/fuzz/session.py` says: which messages, how they are spoiled, to whom.
"""

import random
import sys

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

with atheris.instrument_imports(include=["protocol", "drafter.core", "drafter.mirror", "verifier"]):
    from tests.fuzz.session import Session

INPUTS = 64
"""Of one run, at most: each takes some of the bytes."""


class Told(random.Random):
    """Draws come from the bytes while there are some; then they are all the lowest there are."""

    def __init__(self, taken: "atheris.FuzzedDataProvider") -> None:
        self._taken = taken
        super().__init__(0)

    def random(self) -> float:
        return float(self._taken.ConsumeProbability()) % 1.0

    def getrandbits(self, count: int, /) -> int:
        return int(self._taken.ConsumeIntInRange(0, (1 << min(count, 63)) - 1))

    def randbytes(self, count: int) -> bytes:
        return bytes(self._taken.ConsumeBytes(count)).ljust(count, b"\x00")


def one(data: bytes) -> None:
    """A stranger who says what the bytes say; honest peers are answered all the same."""
    taken = atheris.FuzzedDataProvider(data)
    session = Session(1)
    session.rng = Told(taken)
    for _ in range(INPUTS):
        if not taken.remaining_bytes():
            break
        session.feed()
    session.ask()
    before = session.honest
    for _ in range(40):
        session.turn()
    held = session.held()
    if session.honest == before or held["mirrors"] > 8 or held["choices"] > 12:
        raise AssertionError(f"{session.honest - before} answers, {held}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
