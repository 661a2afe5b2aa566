"""The places of a history, by role: how each builds its node from the real parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from drafter.core import DrafterCore
from drafter.node import DrafterNode
from engine.pages import PagePool
from kvtransfer.ends import Arrivals, Deliveries
from kvtransfer.giving import Giving
from kvtransfer.taking import Taking
from protocol.endpoint import Endpoint
from protocol.link import Identity
from protocol.messages import Limits
from protocol.process import Peers
from tests.sim.asks import Ask, Setting
from tests.sim.client import Client
from tests.sim.door import Door
from tests.sim.liar import Liar
from tests.sim.model import END, ROW_BYTES, HashWorker, ToyDetokenizer
from tests.sim.places import Node, Place, SimMesh
from tests.sim.proposer import STATES, HashProposer
from tests.sim.scenario import DrafterSketch, FrontSketch, Nature, PrefillSketch
from tests.sim.watch import WatchedDrafting
from verifier.acceptance import RULES
from verifier.admission import Admission
from verifier.config import VerifierConfig
from verifier.core import VerifierCore
from verifier.exactness import asked
from verifier.handover import Supply
from verifier.hidden import Hidden
from verifier.node import VerifierNode
from verifier.planners import PLANNERS
from verifier.prefill import PrefillNode
from verifier.prefill_core import PrefillCore
from verifier.step import Step

if TYPE_CHECKING:
    from tests.sim.world import World

CHANNELS: Final = ("zmq",)
"""What a channel beside the mesh carries is not lost, late or twice: only this one is as bad as the network."""


class VerifierPlace(Place):
    """A verifier over the hash model. `peers` are the drafters and prefill nodes it is told to dial.

    `decoding` holds the output lengths of the rows that must grow in this turn, `sat` who was left out of it, `tails`
    the tails that were checked, `last_id` the newest request when it began to drain.
    """

    core: VerifierCore
    drafting: WatchedDrafting
    endpoint: Endpoint

    def __init__(self, world: World, address: str, config: VerifierConfig) -> None:
        super().__init__(address, world.network, world.sent)
        self.config = config
        self.peers = (*world.scenario.drafters, *world.scenario.prefill)
        self.decoding: dict[int, int] = {}
        self.sat: frozenset[int] = frozenset()
        self.tails: dict[int, tuple[float, ...]] = {}
        self.last_id: int | None = None
        self.skew = world.some_clock()
        self._world = world

    def build(self, mesh: SimMesh) -> Node:
        world, config = self._world, self.config
        vocabulary = world.chain.vocabulary
        planner = PLANNERS[config.planner.name](config.planner)
        pool = PagePool(world.scenario.pages, config.page_size)
        worker = HashWorker(
            world.chain,
            pool.pages,
            pool.page_size,
            lambda tokens: world.computing(self, tokens),
            self._steps,
            rule=RULES[config.rule],
        )
        pages = worker.pages
        self.core = VerifierCore(
            config,
            Admission(world.scenario.context, vocabulary, frozenset({END})),
            pool,
            planner,
            ToyDetokenizer,
            supply=Supply(Taking(config.handover, pages.layout, CHANNELS), Arrivals(pages)),
        )
        slices = asked(config)
        self.drafting = WatchedDrafting(planner, vocabulary, self.core.counters, self.clock, slices)
        self.core.drafting = self.core.handover._drafting = self.drafting
        self.tails.clear()
        self.sat = frozenset()
        self.last_id = None
        self.drafting.hidden = Hidden(
            worker.rows, ROW_BYTES, config.features.recent, frame_bytes=7 * ROW_BYTES
        )
        identity = Identity(
            "verifier", self.address, limits=Limits(world.scenario.context), features=(STATES,)
        )
        self.endpoint = Endpoint(mesh, world.scenario.links[self.address], identity, world.number)
        node = VerifierNode(self.core, self.endpoint, worker, self.clock)
        node.command(Peers(self.peers))
        return node

    def clock(self) -> float:
        """Time as this machine tells it."""
        return self._world.clock() + self.skew

    def _steps(self, step: Step) -> None:
        self._world.watch_step(self, step)

    def dial(self, peers: tuple[str, ...]) -> None:
        """From now on these are its drafters and prefill nodes."""
        self.peers = peers
        if self.node is not None:
            self.node.command(Peers(peers))


class PrefillPlace(Place):
    """A prefill node over the hash model."""

    core: PrefillCore
    deliveries: Deliveries
    endpoint: Endpoint

    def __init__(self, world: World, address: str, sketch: PrefillSketch) -> None:
        super().__init__(address, world.network, world.sent)
        self.sketch = sketch
        self.skew = world.some_clock()
        self._world = world

    def clock(self) -> float:
        """Time as this machine tells it."""
        return self._world.clock() + self.skew

    def build(self, mesh: SimMesh) -> Node:
        world, sketch = self._world, self.sketch
        pool = PagePool(sketch.pages, sketch.page_size)
        worker = HashWorker(
            world.chain, pool.pages, pool.page_size, self._elapse, lambda _step: None
        )
        pages = worker.pages
        self.deliveries = Deliveries(pages)
        config = next(iter(world.scenario.verifiers.values()))
        self.core = PrefillCore(
            config.scheduler,
            Giving(config.handover, pages.layout, CHANNELS, sketch.piece),
            self.deliveries,
            pool,
            context=world.scenario.context,
            vocabulary=world.chain.vocabulary,
        )
        identity = Identity("prefill", self.address)
        self.endpoint = Endpoint(mesh, world.scenario.links[self.address], identity, world.number)
        return PrefillNode(self.core, self.endpoint, worker, self.clock)

    def _elapse(self, tokens: int) -> Callable[[], bool]:
        self._world.forward(tokens)
        return lambda: True


class DrafterPlace(Place):
    """A drafter with a simulated method."""

    core: DrafterCore
    proposer: HashProposer
    endpoint: Endpoint

    def __init__(self, world: World, address: str, sketch: DrafterSketch) -> None:
        super().__init__(address, world.network, world.sent)
        self.sketch = sketch
        self.skew = world.some_clock()
        self._world = world

    def clock(self) -> float:
        """Time as this machine tells it."""
        return self._world.clock() + self.skew

    @property
    def honest(self) -> bool:
        return self.sketch.nature is Nature.HONEST

    def build(self, mesh: SimMesh) -> Node:
        world, config = self._world, self.sketch.config
        limits = Limits(config.context, config.max_requests, config.max_ahead)
        needs = (STATES,) if self.honest and self.sketch.profile.features else ()
        identity = Identity(
            "drafter", self.address, limits=limits, method=config.method, needs=needs
        )
        self.endpoint = Endpoint(mesh, world.scenario.links[self.address], identity, world.number)
        if not self.honest:
            manners, vocabulary = self.sketch.manners, world.chain.vocabulary
            return Liar(self.endpoint, self.clock, world.rng, manners, vocabulary)
        self.proposer = HashProposer(
            self.sketch.profile, world.chain, world.rng, world.draft_forward
        )
        self.core = DrafterCore(config, self.proposer)
        return DrafterNode(self.core, self.endpoint, self.proposer, self.clock)


class FrontPlace(Place):
    """A front door with its asks; they die with the process that sent them."""

    client: Client | Door
    endpoint: Endpoint

    def __init__(self, world: World, address: str, sketch: FrontSketch) -> None:
        super().__init__(address, world.network, world.sent)
        self.asks = sketch.asks
        self._real = sketch.real
        self._world = world

    def build(self, mesh: SimMesh) -> Node:
        world = self._world
        identity = Identity("front", self.address)
        self.endpoint = Endpoint(mesh, world.scenario.links[self.address], identity, world.number)
        setting = Setting(
            clock=world.clock,
            chain=world.chain,
            pick=world.rng.randrange,
            excused=lambda verifier: world.excused(self.address, verifier),
            hindered=lambda verifier: world.hindered(self.address, verifier),
            answered=world.answered,
        )
        door = Door if self._real else Client
        self.client = door(self.endpoint, setting, self.asks)
        self.client.command(Peers(tuple(world.scenario.verifiers)))
        return self.client

    def stop(self, *, queued: bool = False) -> None:
        if self.alive:
            self.client.lose()
        super().stop(queued=queued)

    @property
    def waiting(self) -> list[Ask]:
        """Asks whose end is still to come."""
        if self.gone:
            return []
        return [ask for ask in self.asks if not ask.over]
