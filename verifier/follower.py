"""A rank of a verifier that spans several, `python -m verifier.follower`: it runs what rank 0 runs, and ends with it.

It has no mesh and no requests. Whether it ends, and when, rank 0 says; a signal that asks for it is meant for all of
them and is left to rank 0.
"""

import os
import signal
import sys
import threading

from engine.errors import EngineError
from protocol.process import die_with_parent
from protocol.runtime import Tells, arguments, fail, health
from verifier.config import VerifierConfig


def main() -> None:
    """Load this rank's part of the target, and run every forward until rank 0 is over."""
    config, supervised = arguments("verifier.follower", VerifierConfig, sys.argv[1:])
    if supervised:
        die_with_parent()
        threading.Thread(target=_listen, name="control", daemon=True).start()
    try:
        serve(config, health("follower", config.health))
    except (EngineError, OSError) as error:
        fail(str(error))


def serve(config: VerifierConfig, asked: Tells) -> None:
    """The same in this process; it ends with a clear word where rank 0 is gone."""
    import torch  # noqa: PLC0415  # seconds: the parent is obeyed first

    from engine.spanning import follow  # noqa: PLC0415
    from verifier.loading import load  # noqa: PLC0415

    if not config.rank:
        raise EngineError("rank 0 is the verifier itself; others begin with 1")
    loaded = load(config)
    assert loaded.span is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    asked.tell(serving=True)
    try:
        with torch.inference_mode():
            follow(loaded.target, loaded.span.words)
    except RuntimeError as error:  # what gloo and NCCL raise when the other end is gone
        fail(f"rank 0 is gone: {str(error).splitlines()[0]}")
    loaded.span.close()
    asked.close()


def _listen() -> None:
    """The end of stdin means that the parent is gone: nobody would ever say what to run."""
    while os.read(
        sys.stdin.fileno(), 1 << 16
    ):  # past Python's buffer, whose lock would be in the way at the end
        pass
    threading.Event().wait(1.0)  # it may have said just before that it is over
    os._exit(1)


if __name__ == "__main__":
    main()
