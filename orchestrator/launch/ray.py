"""The Ray launcher: Ray decides where a process runs, the supervisor whether it does.

Each verifier and drafter is kept by an actor in a bundle of one placement group. When a node is lost, Ray finds its
bundles another place, the supervisor hears that the processes ended, and starts them again there.
"""

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from orchestrator.config import Config
from orchestrator.launch.keeper import Keeper, News
from orchestrator.launch.placement import STRATEGIES, Node, bundle, fitted, placed, unplaceable
from orchestrator.launch.plan import Child
from orchestrator.launch.process import Process, parse
from orchestrator.launch.threads import usable_cores
from orchestrator.ray_config import RayConfig
from orchestrator.settings import ConfigError

LOST: Final = 137
"""Exit code of a process whose actor is gone: it was killed."""
SLICE: Final = 1
"""Seconds of one wait for places."""
GROUPS: Final = {"listen": 1, "tell": 1}
"""Threads of an actor: one waits for news, one writes in order, so that a third is free to answer pings."""


class RayProcess:
    """Looks like a local process: `stdout` is a pipe that a thread fills with what the actor tells."""

    pid = 0  # it has a number, but not here

    def __init__(self, child: Child, service: str, group: Any, number: int, log: Path) -> None:  # noqa: ANN401
        place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
        needs = group.bundle_specs[number]
        actor = ray.remote(concurrency_groups=GROUPS)(Keeper).options(
            num_cpus=needs["CPU"],
            num_gpus=needs.get("GPU", 0),
            scheduling_strategy=place,
            max_restarts=0,  # the supervisor restarts, with waits
        )
        self._keeper = actor.remote(child, service)
        self._log = log
        self._code = LOST
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
        ray.kill(self._keeper)

    def reap(self) -> int:
        """The exit code, after `read` has answered None."""
        self._thread.join()
        self.stdout.close()
        with suppress(ray.exceptions.RayError):
            ray.kill(self._keeper)  # its bundle is free for the next one
        return self._code

    def _listen(self, write: int) -> None:
        with (
            os.fdopen(write, "wb", buffering=0) as pipe,
            suppress(ray.exceptions.RayError, OSError),
        ):
            while True:
                news: News = ray.get(self._keeper.news.remote())
                for line in news.lines:
                    pipe.write(json.dumps(line).encode() + b"\n")
                if news.code is not None:
                    self._code = news.code
                    if not self._log.exists():  # a node on this machine writes it there itself
                        self._log.write_text(news.log, encoding="utf-8")
                    return


class RayStarter:
    """Starts processes for a `LocalService`: in a cluster those that Ray places, here the front door."""

    def __init__(self, children: Sequence[Child], config: Config) -> None:
        self._config = config.ray
        self._children = [child for child in children if placed(child)]
        wanted = sum(bundle(child, self._config)["CPU"] for child in self._children)
        connect(config.ray, max(usable_cores(), int(wanted)))
        try:
            self._check_doors()
            self._group = self._placed()
        except BaseException:
            ray.shutdown()
            raise
        self._numbers = {child.name: number for number, child in enumerate(self._children)}

    def start(self, child: Child, log: Path) -> Process | RayProcess:
        """Start one; it says what becomes of it through its `stdout`."""
        if not placed(child):
            return Process(child, log)
        number = self._numbers[child.name]
        own = fitted(child, self._config, number)
        return RayProcess(own, log.parent.name, self._group, number, log)

    def close(self) -> None:
        """Give everything back; actors end with it."""
        with suppress(ray.exceptions.RayError):
            remove_placement_group(self._group)
        ray.shutdown()

    def _placed(self) -> Any:  # noqa: ANN401
        group = placement_group(
            [dict(bundle(child, self._config)) for child in self._children],
            strategy=STRATEGIES[self._config.placement],
        )
        deadline = time.monotonic() + self._config.wait
        there = False
        while not there and time.monotonic() < deadline:
            there = group.wait(SLICE)  # it listens to no signal meanwhile
        if not there:
            remove_placement_group(group)
            text = unplaceable(self._children, self._config, nodes(), self._config.wait)
            raise ConfigError(f"{text}.")
        return group

    def _check_doors(self) -> None:
        """Processes of several machines reach each other only through doors that somebody watches."""
        addresses = {node.address for node in nodes()}
        mesh = self._children[0].config.mesh
        if len(addresses) > 1 and not (mesh.keys or mesh.insecure):
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


def nodes() -> list[Node]:
    """Those that live."""
    return [
        Node(each["NodeManagerAddress"], each["Resources"]) for each in ray.nodes() if each["Alive"]
    ]
