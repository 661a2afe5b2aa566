"""What a broken wire costs: `python -m tests.chaos.links` prints the time from each fault's end to drafting again.

A verifier and a drafter with a relay between them, and one client that asks short things again and again. No request
may fail, and no text may change, whatever the wire does.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx

from orchestrator.bench.relay import Relay, Wire
from orchestrator.bench.rtt import Stand
from orchestrator.config import Config
from protocol.config import LinkConfig
from tests.chaos.run import DRAFTED
from tests.models import write_byte_llama

TOKENS: Final = 24
BOUND: Final = 8.0
"""Seconds: silence on both sides, one after the other, then a beat for the hello."""
HURT: Final = 20
"""Requests while the wire is broken."""
FAULTS: Final[dict[str, Wire]] = {
    "50 ms each way": Wire(delay=0.05),
    "jitter of 30 ms": Wire(jitter=0.03),
    "64 KB a second": Wire(rate=64_000),
    "bytes lost": Wire(cut=True),
    "hung up": Wire(),
    "hung up, and nobody there": Wire(cut=True),
}


class Asker:
    """Asks the same again and again; `text` is what was said first."""

    def __init__(self, url: str) -> None:
        self.wrong: list[str] = []
        self._url = url
        self._text: str | None = None

    def ask(self) -> int:
        """Accepted drafts of one answer."""
        body = {"prompt": [7, 8, 9] * 6, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        answer = httpx.post(f"{self._url}/v1/completions", json=body, timeout=60.0)
        if answer.status_code != httpx.codes.OK:
            self.wrong.append(f"{answer.status_code}: {answer.text[:200]}")
            return 0
        choice: dict[str, Any] = answer.json()["choices"][0]
        self._text = self._text if self._text is not None else choice["text"]
        if choice["text"] != self._text:
            self.wrong.append(f"another text: {choice['text']!r}")
        accepted: int = choice["draftmesh"]["accepted"]
        return accepted

    def drafting_again(self) -> float:
        """Seconds until an answer has accepted drafts."""
        began = time.monotonic()
        while time.monotonic() < began + 10 * BOUND and not self.wrong:
            if self.ask():
                break
        return time.monotonic() - began


def run(say: Callable[[str], object]) -> list[str]:
    """Every fault once; what went wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        write_byte_llama(folder / "model")
        fields = {"target": str(folder / "model"), "dtype": "float32", "link": LinkConfig()}
        config = Config.model_validate({**fields, **DRAFTED})
        stand = Stand(config, folder, silence=config.link.silence)
        try:
            return faults(Asker(stand.url), stand.relay, say)
        finally:
            stand.close()


def faults(asker: Asker, relay: Relay, say: Callable[[str], object]) -> list[str]:
    """Every fault once, on a relay between the verifier and its only drafter."""
    asker.drafting_again()
    for name, wire in FAULTS.items():
        relay.wire = wire
        if "hung up" in name:
            relay.hang_up()
        for _ in range(HURT):
            asker.ask()
        relay.wire = Wire()
        seconds = asker.drafting_again()
        say(f"{name:28} drafting again after {seconds:6.2f} s")
        if seconds > BOUND:
            asker.wrong.append(f"{name}: {seconds:.1f} s")
    return asker.wrong


def main() -> None:
    wrong = run(lambda line: sys.stdout.write(f"{line}\n"))
    sys.stdout.write("".join(f"WRONG: {each}\n" for each in wrong))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
