"""Rows of hidden states as they travel, read from the target's pages.

Shapes: N rows of all spans, F numbers of a row, B bytes of it.
"""

from collections.abc import Sequence

import torch

from engine.features import Features, Projection
from engine.projections import Places
from engine.runner import Engine
from protocol.tensor import Tensor
from verifier.config import FeaturesConfig
from verifier.hidden import Span


class FeatureRows:
    """See `verifier.hidden.Rows`: one gather for all spans, and views of it for each."""

    def __init__(self, features: Features, page_size: int) -> None:
        self.text = features.text
        self._features = features
        self._page_size = page_size
        self._dtype = str(features.rows_QF.dtype).removeprefix("torch.")

    @property
    def row_bytes(self) -> int:
        return self._features.width * self._features.rows_QF.itemsize

    def __call__(self, spans: Sequence[Span]) -> list[Tensor]:
        rows_NF = _here(self._features.read(spans, self._page_size))
        bytes_NB = memoryview(rows_NF.view(torch.uint8).numpy())  # type: ignore[arg-type]  # arrays are buffers
        tensors, first = [], 0
        for _, start, end in spans:
            last = first + end - start
            data = bytes_NB[first:last].cast("B")
            tensors.append(Tensor(self._dtype, (end - start, self._features.width), data))
            first = last
        return tensors


def _here(rows: torch.Tensor) -> torch.Tensor:
    """Rows of a device in pinned memory, from which they are sent as they are."""
    if rows.device.type == "cpu":
        return rows
    return torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True).copy_(rows)


def projection(config: FeaturesConfig, device: str = "cpu") -> Projection | None:
    """What is made of the states before they are kept; None: nothing."""
    if not config.states or not config.fc:
        return None
    places = Places(
        folder=config.draft,
        fc=config.fc,
        part_norms=config.part_norms,
        joint_norm=config.joint_norm,
        norm=config.norm,
        eps=config.eps,
    )
    return Projection.read(places, getattr(torch, config.dtype), device)


def capture(engine: Engine, config: FeaturesConfig, kept: Projection | None) -> FeatureRows | None:
    """Let the engine keep what the configuration says; None where that is nothing."""
    if not config.states:
        return None
    slots = (engine.config.pages + engine.config.spare) * engine.config.page_size
    features = Features(
        config.states, engine.model.hidden, slots, config.dtype, kept, device=engine.config.device
    )
    engine.capture(features)
    return FeatureRows(features, engine.config.page_size)
