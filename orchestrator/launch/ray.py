"""The Ray launcher: Ray decides where a process runs, the supervisor whether it does.

Each verifier, prefill node and drafter is kept by an actor in a bundle of a placement group. When a node is lost, Ray
finds its bundles another place, the supervisor hears that the processes ended, and starts them again there.
"""

import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from orchestrator.config import Config
from orchestrator.launch.keeper import Keeper, News
from orchestrator.launch.placement import bundle, fitted, placed
from orchestrator.launch.plan import Child
from orchestrator.launch.process import Process, parse
from orchestrator.launch.ray_places import Places, Seat, nodes
from orchestrator.launch.threads import usable_cores
from orchestrator.ray_config import RayConfig
from orchestrator.settings import ConfigError

LOST: Final = 137
"""Exit code of a process whose actor is gone: it was killed."""
NO_PLACE: Final = 2
"""Exit code of one that was never started."""
QUESTIONS: Final = 6
"""How often an actor must answer within the silence that it may keep, though it may have nothing to tell."""
GROUPS: Final = {"listen": 1, "tell": 1}
"""Threads of an actor: one waits for news, one writes in order, so that a third is free to answer pings."""


class RayProcess:
    """Looks like a local process: `stdout` is a pipe that a thread fills with what the actor tells."""

    pid = 0  # it has a number, but not here

    def __init__(self, child: Child, service: str, seat: Seat, log: Path, silence: float) -> None:
        place = PlacementGroupSchedulingStrategy(
            seat.group, placement_group_bundle_index=seat.index
        )
        needs = seat.group.bundle_specs[seat.index]
        actor = ray.remote(concurrency_groups=GROUPS)(Keeper).options(
            num_cpus=needs["CPU"],
            num_gpus=needs.get("GPU", 0),
            scheduling_strategy=place,
            max_restarts=0,  # the supervisor restarts, with waits
        )
        self._keeper = actor.remote(child, service)
        self._seat = seat
        self._log = log
        self._silence = silence
        self._code = LOST
        self._killed = threading.Event()
        read, write = os.pipe()
        os.set_blocking(read, False)
        self.stdout: IO[bytes] = os.fdopen(read, "rb", buffering=0)
        self._partial = b""
        self._thread = threading.Thread(
            target=self._listen, args=(write,), name=child.name, daemon=True
        )
        self._thread.start()

    def tell(self, line: object) -> None:
        """Write a line; what is told before it runs is told then."""
        self._keeper.tell.remote(line)

    def read(self) -> list[dict[str, Any]] | None:
        """The status lines that came since the last call; None when it has ended."""
        data = os.read(self.stdout.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [status for line in lines if (status := parse(line)) is not None]

    def kill(self) -> None:
        """End it at once, and its actor."""
        self._killed.set()
        ray.kill(self._keeper)

    def reap(self) -> int:
        """The exit code, after `read` has answered None."""
        self._thread.join()
        self.stdout.close()
        with suppress(ray.exceptions.RayError):
            ray.kill(self._keeper)  # its bundle is free for the next one
        self._seat.release()
        return self._code

    def _listen(self, write: int) -> None:
        with (
            os.fdopen(write, "wb", buffering=0) as pipe,
            suppress(ray.exceptions.RayError, OSError),
        ):
            if refusal := self._seat.missing(self._killed.is_set):
                self._code = NO_PLACE
                _write(pipe, {"state": "failed", "detail": {"error": refusal}})
                return
            ray.get(
                self._keeper.ping.remote()
            )  # as long as it takes: its node may be lost just now
            while not self._over(pipe, self._news()):
                pass

    def _news(self) -> News:
        """What it tells next; a RayError if it answers nothing for too long."""
        asked = self._keeper.news.remote(self._silence / QUESTIONS)
        told: News = ray.get(asked, timeout=self._silence)
        return told

    def _over(self, pipe: IO[bytes], news: News) -> bool:
        """Pass on what it tells; whether that was all."""
        for line in news.lines:
            _write(pipe, line)
        if news.code is None:
            return False
        self._code = news.code
        if not self._log.exists():  # a node on this machine writes it there itself
            self._log.write_text(news.log, encoding="utf-8")
        return True


def _write(pipe: IO[bytes], line: object) -> None:
    pipe.write(json.dumps(line).encode() + b"\n")


class RayStarter:
    """Starts processes for a `LocalService`: in a cluster those that Ray places, here the front door."""

    def __init__(self, children: Sequence[Child], config: Config) -> None:
        self._config = config.ray
        first = [child for child in children if placed(child)]
        wanted = sum(bundle(child, self._config)["CPU"] for child in first)
        connect(config.ray, max(usable_cores(), int(wanted)))
        try:
            _check_doors(config)
            self._places = Places(first, config.ray)
        except BaseException:
            ray.shutdown()
            raise

    def start(self, child: Child, log: Path) -> Process | RayProcess:
        """Start one; it says what becomes of it through its `stdout`."""
        if not placed(child):
            return Process(child, log)
        seat = self._places.seat(child)
        own = fitted(child, self._config, seat.number)
        return RayProcess(own, log.parent.name, seat, log, self._config.silence)

    def close(self) -> None:
        """Give everything back; actors end with it."""
        self._places.close()
        ray.shutdown()


def _check_doors(config: Config) -> None:
    """Processes of several machines reach each other only through doors that somebody watches."""
    addresses = {node.address for node in nodes()}
    if len(addresses) > 1 and not (config.mesh.keys or config.mesh.insecure):
        found = ", ".join(sorted(addresses))
        raise ConfigError(
            f"The cluster has several machines ({found}): their mesh needs --mesh-keys, "
            "a folder that is on all of them, or --insecure-mesh."
        )


def connect(config: RayConfig, cores: int) -> None:
    """Join the cluster that is meant, or start one here, with so many cores, that ends with this process."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(
        "RAY_AUTH_MODE", "disabled"
    )  # said, not guessed; a cluster with tokens says so itself
    address = config.address or os.environ.get("RAY_ADDRESS", "")
    quiet = {"log_to_driver": False, "configure_logging": False, "namespace": "draftmesh"}
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=cores,
                include_dashboard=False,
                object_store_memory=config.object_store_bytes,
                _system_config={
                    "health_check_period_ms": 1000,
                    "health_check_failure_threshold": 5,
                },
                **quiet,
            )
    except (ConnectionError, ray.exceptions.RayError, ValueError, RuntimeError) as error:
        where = f"the Ray cluster at {address}" if address else "a Ray cluster here"
        text = str(error).strip().splitlines()
        raise ConfigError(
            f"There is no way into {where}: {text[0] if text else error!r}"
        ) from error
