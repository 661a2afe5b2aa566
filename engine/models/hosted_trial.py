"""A model that was just loaded is tried out: does all that passes between tokens pass through our attention?

Three tokens are run twice, the second time in the opposite order with their positions. Every token
attends to itself alone, so what a layer asks of attention and what the model says must be the same for
each token both times. A convolution, a recurrence or a position that the model counts by itself shows.

Shapes: T tokens, A query heads, K key/value heads, D head size, V vocabulary.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from engine.attention import Kind
from engine.errors import EngineError
from engine.models.config import ModelConfig
from engine.models.features import first_line
from engine.models.hosted_attention import Mask, visiting

Run = Callable[[Tensor, Tensor, Tensor], Tensor]
TOLERANCE: Final = (
    0.02  # of the largest value: bfloat16 and a batch in another order differ by less
)


class _Trial:
    """A Visitor that lets every token attend to itself and notes what it was asked."""

    def __init__(self, model: ModelConfig, *, in_order: bool) -> None:
        self._model = model
        self._in_order = in_order  # otherwise transformers makes masks for three texts of one token
        self.layers: dict[nn.Module, int] = {}
        self.seen: list[Tensor] = []
        self.complaints: list[str] = []

    def attention(
        self, layer: nn.Module, q_TAD: Tensor, k_TKD: Tensor, v_TKD: Tensor, kind: Kind
    ) -> Tensor:
        del kind
        if layer in self.layers:
            self.complaints.append("a layer that attends twice")
        self.layers[layer] = len(self.layers)
        self.seen += [q_TAD, k_TKD]
        own = self._model
        for name, shape, heads in (
            ("queries", q_TAD.shape, own.heads),
            ("keys", k_TKD.shape, own.kv_heads),
            ("values", v_TKD.shape, own.kv_heads),
        ):
            if tuple(shape[1:]) != (heads, own.head_dim):
                found = f"{shape[1]} x {shape[2]} {name} in layer {len(self.layers) - 1}"
                self.complaints.append(f"{found}, where pages hold {heads} x {own.head_dim}")
        fold = q_TAD.shape[1] // v_TKD.shape[1]
        return v_TKD.repeat_interleave(fold, dim=1).flatten(1)

    def mask(self, mask: Mask) -> None:
        if self._in_order and (complaint := unlike(mask)):
            self.complaints.append(complaint)

    def surprise(self, complaint: str) -> None:
        self.complaints.append(complaint)


@torch.no_grad()
def tried(run: Run, model: ModelConfig, device: torch.device) -> dict[nn.Module, int]:
    """The attention layers of a model in order; an EngineError names what it does that cannot be served."""
    ids_T = torch.tensor([1, 3, 2], device=device) % model.vocab
    positions_T, all_T = torch.arange(3, device=device), torch.arange(3, device=device)
    forth, back = _Trial(model, in_order=True), _Trial(model, in_order=False)
    try:
        with visiting(forth):
            logits_TV = run(ids_T, positions_T, all_T)
        with visiting(back):
            reversed_TV = run(ids_T.flip(0), positions_T.flip(0), all_T)
    except Exception as error:  # whatever a module raises, it cannot be served
        said = (forth.complaints or [f"a module that fails here ({first_line(error)})"])[0]
        raise EngineError(f"{model.architecture} is not served: it has {said}") from error
    complaints = forth.complaints
    if not complaints and len(forth.layers) != model.layers:
        complaints = [f"{model.layers} layers, but {len(forth.layers)} that attend"]
    if not complaints:
        pairs = zip([*forth.seen, logits_TV], [*back.seen, reversed_TV], strict=True)
        if not all(_same(one, other.flip(0)) for one, other in pairs):
            complaints = ["layers that mix tokens, or count positions, outside attention"]
    if complaints:
        raise EngineError(f"{model.architecture} is not served: it has {complaints[0]}")
    return forth.layers


def _same(one: Tensor, other: Tensor) -> bool:
    largest = float(one.abs().max())
    return bool((one.float() - other.float()).abs().max() <= TOLERANCE * largest)


def unlike(mask: Mask) -> str:
    """What a mask does that neither causal nor sliding attention does, found by asking for some places of it."""
    window = mask.window or 8
    keys = torch.arange(3 * window + 8)
    for query in (0, 1, 5, window, 3 * window + 1):
        shown = mask.function(0, 0, torch.tensor(query), keys).expand(keys.shape)
        expected = keys <= query
        if mask.window is not None:
            expected &= keys > query - mask.window
        if not torch.equal(shown, expected):
            bidirectional = bool(shown[keys > query].any())
            return "attention to later tokens" if bidirectional else "a mask of its own"
    return ""
