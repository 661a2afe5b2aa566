"""Matrix products, in the memory layout and with the fused ends that each dtype is fastest with.

Shapes: T tokens, I inputs, O outputs.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from engine.steady import ANY, CHOICES, Amounts, Product, find, rounding

Linear = Callable[[Tensor], Tensor]
AddedLinear = Callable[[Tensor, Tensor], Tensor]

# oneDNN blocks a weight for a number of tokens. On CPUs with AMX, blocks for one make its sums run in the same order
# for any number, so that a token's result has the same bits alone, in a window and in a batch;
# blocks for 16 do not, and are 10% faster from 64 tokens on. What else the order depends on: `engine.steady`.
PACKED_FOR: Final = 1


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
    faster for so many; a token's bits may then depend on its batch, and do so, too, where products are not `steady`.
    """

    def __init__(self, tokens: int = PACKED_FOR, *, steady: bool = True) -> None:
        self._tokens = tokens
        self._steady = steady
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

        return self._kept(weight_OI, apply)

    def added(self, weight_OI: Tensor, bias_O: Tensor | None) -> AddedLinear:
        blocks, product = self._reorder(weight_OI, self._tokens), self._binary

        def apply(x_TI: Tensor, y_TO: Tensor) -> Tensor:
            sum_TO: Tensor = product(x_TI, y_TO, blocks, bias_O, "add")
            return sum_TO

        return self._kept(weight_OI, apply)

    def gated(self, gate_OI: Tensor, up_OI: Tensor, biases_2O: Tensor | None) -> Linear:
        gate, up = (self._reorder(each, self._tokens) for each in (gate_OI, up_OI))
        unary, binary = self._unary, self._binary
        gate_O, up_O = (None, None) if biases_2O is None else biases_2O.unbind()

        def apply(x_TI: Tensor) -> Tensor:
            gate_TO = unary(x_TI, gate, gate_O, "swish", [], "")
            y_TO: Tensor = binary(x_TI, gate_TO, up, up_O, "mul")
            return y_TO

        return self._kept(gate_OI, apply)

    def _kept(self, weight_OI: Tensor, apply: Product) -> Product:
        """The same product, in amounts that keep a token's bits."""
        if not self._steady:
            return apply
        outputs, inputs = weight_OI.shape
        return amounts(outputs, inputs, self._tokens, torch.get_num_threads()).keep(apply)


@cache
def amounts(outputs: int, inputs: int, tokens: int, threads: int) -> Amounts:  # noqa: ARG001
    """In which amounts packed products of a shape keep a token's bits on this CPU, with one thread and with `threads`.

    Any amount where none does.
    """
    weight_OI, token_1I, nought_1O = rounding(outputs, inputs, torch.bfloat16)
    bare = Packed(tokens, steady=False)
    plain, added = bare.plain(weight_OI, None), bare.added(weight_OI, None)
    both = [plain, lambda x_TI: added(x_TI, nought_1O.repeat(len(x_TI), 1))]
    found = find(both, token_1I, CHOICES)
    return found or ANY


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
