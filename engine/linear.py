"""Matrix products, in the memory layout and with the fused ends that each dtype is fastest with.

Shapes: T tokens, I inputs, O outputs.
"""

from collections.abc import Callable
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

Linear = Callable[[Tensor], Tensor]
AddedLinear = Callable[[Tensor, Tensor], Tensor]

# oneDNN blocks a weight for a number of tokens. Blocks for one make its sums run in the same order
# for any number, so that a token's result has the same bits alone, in a window and in a batch;
# blocks for 16 do not, and are 10% faster from 64 tokens on.
PACKED_FOR: Final = 1
# The order also changes where a long sum is split over the threads: with few outputs and many
# tokens. Products that narrow take so many tokens at a time.
NARROWING_TOKENS: Final = 32


class Products(Protocol):
    """The products a decoder is made of; weights are [O, I], biases [O]."""

    def plain(self, weight_OI: Tensor, bias_O: Tensor | None) -> Linear:
        """W x + b of x."""

    def added(self, weight_OI: Tensor, bias_O: Tensor | None) -> AddedLinear:
        """The sum y + W x + b of x and y."""

    def gated(self, gate_OI: Tensor, up_OI: Tensor, biases_2O: Tensor | None) -> Linear:
        """The product silu(G x) * (U x) of x, with the biases of both."""


class Packed:
    """oneDNN's blocked weights: without them bfloat16 weights are blocked anew at every product.

    Sums are kept in float32 and rounded once, after whatever is fused to the end. The operators are
    those that torch's own compiler emits for CPUs; there is no public name for them. Blocks for more `tokens` are
    faster for so many, and a token's bits then depend on its batch.
    """

    def __init__(self, tokens: int = PACKED_FOR) -> None:
        self._tokens = tokens
        self._reorder = torch.ops.mkldnn._reorder_linear_weight  # noqa: SLF001
        self._unary = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001
        self._binary = torch.ops.mkldnn._linear_pointwise.binary  # noqa: SLF001

    @staticmethod
    def supported() -> bool:
        """Whether this build of torch has the operators and this CPU the instructions."""
        return hasattr(torch.ops.mkldnn, "_linear_pointwise") and bool(
            torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001
        )

    def plain(self, weight_OI: Tensor, bias_O: Tensor | None) -> Linear:
        blocks, product = self._reorder(weight_OI, self._tokens), self._unary

        def apply(x_TI: Tensor) -> Tensor:
            y_TO: Tensor = product(x_TI, blocks, bias_O, "none", [], "")
            return y_TO

        return apply

    def added(self, weight_OI: Tensor, bias_O: Tensor | None) -> AddedLinear:
        blocks, product = self._reorder(weight_OI, self._tokens), self._binary
        narrows = self._tokens == PACKED_FOR and weight_OI.shape[0] < weight_OI.shape[1]

        def apply(x_TI: Tensor, y_TO: Tensor) -> Tensor:
            if narrows and x_TI.shape[0] > NARROWING_TOKENS:
                pieces = zip(
                    torch.split(x_TI, NARROWING_TOKENS),
                    torch.split(y_TO, NARROWING_TOKENS),
                    strict=True,
                )
                return torch.cat([product(x, y, blocks, bias_O, "add") for x, y in pieces])
            sum_TO: Tensor = product(x_TI, y_TO, blocks, bias_O, "add")
            return sum_TO

        return apply

    def gated(self, gate_OI: Tensor, up_OI: Tensor, biases_2O: Tensor | None) -> Linear:
        gate, up = (self._reorder(each, self._tokens) for each in (gate_OI, up_OI))
        unary, binary = self._unary, self._binary
        gate_O, up_O = (None, None) if biases_2O is None else biases_2O.unbind()

        def apply(x_TI: Tensor) -> Tensor:
            gate_TO = unary(x_TI, gate, gate_O, "swish", [], "")
            y_TO: Tensor = binary(x_TI, gate_TO, up, up_O, "mul")
            return y_TO

        return apply


class Transposed:
    """Weights with outputs side by side, which MKL multiplies up to twice as fast for few tokens."""

    def plain(self, weight_OI: Tensor, bias_O: Tensor | None) -> Linear:
        weight_IO = weight_OI.t().contiguous()
        if bias_O is None:
            return lambda x_TI: torch.mm(x_TI, weight_IO)
        return lambda x_TI: torch.addmm(bias_O, x_TI, weight_IO)

    def added(self, weight_OI: Tensor, bias_O: Tensor | None) -> AddedLinear:
        weight_IO = weight_OI.t().contiguous()
        if bias_O is None:
            return lambda x_TI, y_TO: torch.addmm(y_TO, x_TI, weight_IO)
        return lambda x_TI, y_TO: torch.addmm(y_TO, x_TI, weight_IO).add_(bias_O)

    def gated(self, gate_OI: Tensor, up_OI: Tensor, biases_2O: Tensor | None) -> Linear:
        bias = None if biases_2O is None else biases_2O.flatten()
        both = self.plain(torch.cat((gate_OI, up_OI)), bias)

        def apply(x_TI: Tensor) -> Tensor:
            gate_TO, up_TO = both(x_TI).chunk(2, dim=-1)
            return silu(gate_TO).mul_(up_TO)

        return apply


class Stored:
    """Weights as they are stored: what the libraries of GPUs take."""

    def plain(self, weight_OI: Tensor, bias_O: Tensor | None) -> Linear:
        return lambda x_TI: linear(x_TI, weight_OI, bias_O)

    def added(self, weight_OI: Tensor, bias_O: Tensor | None) -> AddedLinear:
        weight_IO = weight_OI.t()
        if bias_O is None:
            return lambda x_TI, y_TO: torch.addmm(y_TO, x_TI, weight_IO)
        return lambda x_TI, y_TO: torch.addmm(y_TO, x_TI, weight_IO).add_(bias_O)

    def gated(self, gate_OI: Tensor, up_OI: Tensor, biases_2O: Tensor | None) -> Linear:
        both_OI = torch.cat((gate_OI, up_OI))
        bias = None if biases_2O is None else biases_2O.flatten()

        def apply(x_TI: Tensor) -> Tensor:
            gate_TO, up_TO = linear(x_TI, both_OI, bias).chunk(2, dim=-1)
            return silu(gate_TO).mul_(up_TO)

        return apply


def products(dtype: torch.dtype, device: torch.device | str = "cpu") -> Products:
    """The products to use for a dtype on a device of this machine."""
    if torch.device(device).type != "cpu":
        return Stored()
    return Packed() if dtype is torch.bfloat16 and Packed.supported() else Transposed()
