"""A target that spans several processes: rank 0 starts the others, or waits for them, and all end together."""

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine.errors import EngineError
from engine.ranks import OVER, Shard
from engine.ranks_torch import TorchRanks
from protocol.config import HealthConfig
from protocol.process import announce
from verifier.config import VerifierConfig

log = logging.getLogger("verifier")

HERE: Final = "127.0.0.1"
GRACE: Final = 3.0
"""Seconds that others have to end: ranks when rank 0 is over, rank 0 when one of them is lost."""


class Followers:
    """The other ranks, as processes of this machine. One that ends by itself takes this process along.

    They must be started by a thread that lives as long as the process: they are killed when it is gone.
    """

    def __init__(self, configs: Sequence[VerifierConfig]) -> None:
        self.lost = ""
        """Which rank ended by itself, and how."""
        self._stop: Callable[[], None] = lambda: None
        self._closing = threading.Event()
        self._processes = {config.rank: _started(config) for config in configs}
        for rank in self._processes:
            name = f"rank {rank}"
            threading.Thread(target=self._watch, args=(rank,), name=name, daemon=True).start()

    def on_loss(self, stop: Callable[[], None]) -> None:
        """What ends this process in order when a rank is lost; it has `GRACE` seconds."""
        self._stop = stop
        if self.lost:
            stop()

    def close(self) -> None:
        """Rank 0 has said that it is over: none of them is left afterwards."""
        self._closing.set()
        for process in self._processes.values():
            with suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _watch(self, rank: int) -> None:
        code = self._processes[rank].wait()
        if self._closing.is_set():
            return
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        self.lost = f"rank {rank} {how}, and with it its part of the target"
        log.error("%s", self.lost)
        self._stop()
        if not self._closing.wait(GRACE):
            announce("failed", detail={"error": self.lost})
            os._exit(1)  # in the middle of a forward that waits for it


class Span:
    """This process among the ranks of its target; `followers` are those that it started."""

    def __init__(self, words: TorchRanks, followers: Followers | None) -> None:
        self.words = words
        self.followers = followers

    @property
    def lost(self) -> str:
        """Which rank is gone, if it is known."""
        return self.followers.lost if self.followers else ""

    def on_loss(self, stop: Callable[[], None]) -> None:
        """See `Followers.on_loss`; of ranks on other machines only a forward finds out."""
        if self.followers:
            self.followers.on_loss(stop)

    def close(self) -> None:
        """Nothing is computed any more."""
        if not self.words.shard.rank and not self.lost and not self.words.broken:
            with suppress(RuntimeError):  # one may be gone that nobody has noticed yet
                self.words.tell(OVER)
        if self.followers:
            self.followers.close()
        self.words.close()


def shard(config: VerifierConfig) -> Shard:
    """The part of the target that is this process's, or an EngineError."""
    if config.rank >= config.tensor_parallel:
        raise EngineError(
            f"rank {config.rank} does not exist where tensor_parallel is {config.tensor_parallel}"
        )
    return Shard(config.rank, config.tensor_parallel)


def spanned(config: VerifierConfig) -> Span | None:
    """Take this process's place among the ranks; None where there is one. EngineError: they cannot be reached."""
    own = shard(config)
    if own.ranks == 1:
        return None
    apart = config.ranks == "apart"
    if apart and not config.rendezvous:
        raise EngineError(
            "ranks that are apart need a rendezvous: `orchestrator run verifier --rendezvous HOST:PORT`, "
            "and as many followers"
        )
    at = address(config.rendezvous) if apart or own.rank else (HERE, 0)
    if own.rank:
        return Span(TorchRanks.join(own, at, config.device, config.rank_seconds), None)
    family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
    listening = socket.create_server(at, family=family)
    followers = None
    if not apart:
        port = listening.getsockname()[1]
        followers = Followers([_follower(config, rank, port) for rank in range(1, own.ranks)])
    device = f"{config.device}:0" if config.device == "cuda" else config.device
    return Span(TorchRanks.lead(own.ranks, listening, device, config.rank_seconds), followers)


def address(said: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, or an EngineError."""
    host, _, port = said.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise EngineError(f"rendezvous {said!r} is no HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _follower(config: VerifierConfig, rank: int, port: int) -> VerifierConfig:
    """The configuration of another rank on this machine: on the next GPU, where there are any."""
    device = f"cuda:{rank}" if config.device != "cpu" else "cpu"
    return config.model_copy(
        update={
            "node_id": f"{config.node_id}-rank-{rank}",
            "rank": rank,
            "rendezvous": f"{HERE}:{port}",
            "device": device,
            "health": HealthConfig(),  # rank 0 is asked for all
        }
    )


def _started(config: VerifierConfig) -> "subprocess.Popen[bytes]":
    """Its words go where ours go, beside what our parent reads."""
    places = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    arguments = ("--supervised", "--config", config.model_dump_json())
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "verifier.follower", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        process_group=0,  # a Ctrl-C in the terminal is rank 0's to handle
    )
