"""The baseline that puts verifier and drafter into one process: draft, then verify, each with all cores.

Launcher side: `merged` makes one child of two. Child side: `python -m orchestrator.bench.colocated`, which has a mesh
for the front door and, inside, one for its two halves.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drafter.config import DrafterConfig
from orchestrator.config import Config
from orchestrator.launch.plan import Child, children
from protocol.local_mesh import LocalMesh, LocalNetwork
from protocol.loop import pause
from protocol.mesh import Frames, Mesh, Peer
from protocol.process import Command, Control, Peers, announce
from protocol.runtime import Node, arguments, clock, give_up, run
from verifier.config import VerifierConfig

MODULE: Final = "orchestrator.bench.colocated"
INSIDE: Final = "inside:"
"""What addresses within the process begin with."""


class ColocatedConfig(VerifierConfig):
    """A verifier and the drafter in it."""

    drafter: DrafterConfig


@dataclass(frozen=True)
class Colocated(Child):
    """The child that is both."""

    @property
    def module(self) -> str:
        return MODULE


def merged(config: Config, target: Path, draft: Path | None, cores: int) -> list[Child]:
    """The processes of a service, verifier and drafter as one: they take turns, so each has all cores."""
    front, verifier, drafter = children(config, target, draft, cores)
    assert isinstance(verifier.config, VerifierConfig)
    assert isinstance(drafter.config, DrafterConfig)
    wanted = "threads" in config.verifier.model_fields_set
    threads = {"threads": config.verifier.threads if wanted else cores}
    # Drafts beyond what is verified next are only worth their time where they cost the verifier none.
    ahead = {"max_ahead": min(drafter.config.max_ahead, config.window)}
    both = ColocatedConfig(
        **verifier.config.model_copy(update=threads).model_dump(),
        drafter=drafter.config.model_copy(update=threads | ahead),
    )
    environment = {"OMP_NUM_THREADS": str(both.threads), "TOKENIZERS_PARALLELISM": "false"}
    return [front, Colocated(both, "verifier", environment)]


class TwoMeshes:
    """A mesh to the world and one within the process behind one face; only the world's is waited on."""

    def __init__(self, world: Mesh, within: LocalMesh) -> None:
        self._world = world
        self._within = within

    @property
    def address(self) -> str:
        return self._world.address

    def connect(self, address: str) -> Peer:
        return self._of(address), self._mesh(address).connect(address)

    def disconnect(self, peer: Peer) -> None:
        mesh, name = self._split(peer)
        mesh.disconnect(name)

    def send(self, peer: Peer, frames: Frames) -> bool:
        mesh, name = self._split(peer)
        return mesh.send(name, frames)

    def drain(self) -> list[tuple[Peer, Frames]]:
        meshes: Sequence[tuple[bool, Mesh]] = ((True, self._within), (False, self._world))
        return [
            ((inside, peer), frames) for inside, mesh in meshes for peer, frames in mesh.drain()
        ]

    def wait(self, seconds: float) -> None:
        self._world.wait(0.0 if self._within.queued else seconds)

    def wake(self) -> None:
        self._world.wake()

    def close(self) -> None:
        self._within.close()
        self._world.close()

    def _of(self, address: str) -> bool:
        return address.startswith(INSIDE)

    def _mesh(self, address: str) -> Mesh:
        return self._within if self._of(address) else self._world

    def _split(self, peer: Peer) -> tuple[Mesh, Peer]:
        match peer:
            case (bool(inside), name):
                return (self._within if inside else self._world), name
            case _:
                return self._world, peer  # a stranger to both


class Lockstep:
    """Keeps the contract of `protocol.runtime.Node` for two nodes that take turns."""

    def __init__(self, config: ColocatedConfig) -> None:
        # Imported by the child alone: torch takes seconds.
        from drafter.__main__ import build as build_drafter  # noqa: PLC0415
        from verifier.__main__ import build as build_verifier  # noqa: PLC0415

        network = LocalNetwork(clock)
        self.drafter = build_drafter(config.drafter)
        self.drafter.endpoint.mesh.close()
        self.drafter.endpoint.mesh = network.mesh(INSIDE + "drafter")
        plain = VerifierConfig.model_validate(config.model_dump(exclude={"drafter"}))
        self.verifier = build_verifier(plain)
        self.world = self.verifier.endpoint.mesh
        within = network.mesh(INSIDE + "verifier")
        self.verifier.endpoint.mesh = TwoMeshes(self.world, within)
        self.verifier.command(Peers((INSIDE + "drafter",)))
        self.stopped = False
        self.serving = True

    def command(self, command: Command) -> None:
        """As a verifier does; but the only drafter is the one within."""
        if not isinstance(command, Peers):
            self.verifier.command(command)
            self.stopped = self.verifier.stopped

    def turn(self) -> bool:
        """Draft, then verify."""
        drafted = self.drafter.turn()
        verified = self.verifier.turn()
        self.stopped = self.verifier.stopped
        return drafted or verified

    def pause(self) -> None:
        now = clock()
        deadline = min(self.verifier.core.deadline(now), self.drafter.endpoint.deadline())
        pause(self.verifier.endpoint, clock, deadline)

    def close(self) -> None:
        self.verifier.close()
        self.drafter.endpoint.close()


def main() -> None:
    """Load both models, serve until drained or stopped."""
    from engine.errors import EngineError  # noqa: PLC0415
    from protocol.errors import LocalError  # noqa: PLC0415

    config, supervised = arguments(MODULE, ColocatedConfig, sys.argv[1:])
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    try:
        both = Lockstep(config)
    except (EngineError, LocalError, ValueError, OSError) as error:
        give_up(config.node_id, str(error))
    control.on_command(both.world.wake)
    announce("ready", node_id=config.node_id, address=both.world.address)
    node: Node = both
    try:
        run(node, control, config.drain_seconds)
    finally:
        both.close()


if __name__ == "__main__":
    main()
