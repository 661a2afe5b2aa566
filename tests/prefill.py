"""Prefill nodes with the real engine, for clusters in one thread; see `tests/cluster.py`."""

from collections.abc import Callable
from typing import Final

from engine.pages import PagePool
from engine.runner import Engine
from kvtransfer.channels import CHANNELS
from kvtransfer.config import HandoverConfig
from kvtransfer.ends import Arrivals, Deliveries
from kvtransfer.giving import Giving
from kvtransfer.taking import Taking
from protocol.endpoint import Endpoint
from verifier.config import VerifierConfig
from verifier.handing import layout_of, pages_of
from verifier.handover import Supply
from verifier.prefill import PrefillNode
from verifier.prefill_core import PrefillCore
from verifier.prefill_worker import PrefillWorker

PIECE: Final = 5000
"""Bytes of a chunk: little enough to tear layers apart."""
EAGER: Final = HandoverConfig(least=1)


def prefill_node(
    engine: Engine, config: VerifierConfig, endpoint: Endpoint, clock: Callable[[], float]
) -> PrefillNode:
    """As its process builds it, over an engine that is loaded."""
    layout = layout_of(engine, "w")
    core = PrefillCore(
        config.scheduler,
        Giving(config.handover, layout, tuple(CHANNELS), PIECE),
        Deliveries(pages_of(engine, layout)),
        PagePool(engine.config.pages, engine.config.page_size),
        context=engine.config.max_context,
        vocabulary=engine.model.vocab,
    )
    return PrefillNode(core, endpoint, PrefillWorker(engine), clock)


def supply(engine: Engine, config: VerifierConfig) -> Supply:
    """The verifier's side of it."""
    layout = layout_of(engine, "w")
    taking = Taking(config.handover, layout, tuple(CHANNELS))
    return Supply(taking, Arrivals(pages_of(engine, layout)))
