"""How many tokens a kernel may take at a time so that the bits of each do not depend on the others.

Libraries choose a kernel by the size of a product, and kernels sum in different orders: on one kind of CPU a token
alone is summed otherwise than two, on another long sums are split over the threads from some size on. Which sizes
agree is not documented, so it is found out, once for each shape, with sums that are nothing but rounding errors:
of a hundred sums in another order perhaps one shows it after it was rounded, of these each does.

Shapes: T tokens, I inputs, O outputs; X queries, L keys, D head size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

Product = Callable[..., Tensor]
"""Takes tensors with a row for each token, returns one."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Tokens of one product: at least, and at most (None: any number)."""

    least: int = 1
    most: int | None = None

    def __contains__(self, tokens: int) -> bool:
        return self.least <= tokens and (self.most is None or tokens <= self.most)

    def keep(self, product: Product) -> Product:
        """The same product, in such amounts: too few tokens come with copies of the last, too many in pieces."""
        if self == ANY:
            return product

        def one(*rows: Tensor) -> Tensor:
            tokens = rows[0].shape[0]
            lack = self.least - tokens
            if lack <= 0 or not tokens:
                return product(*rows)
            return product(*(torch.cat((each, each[-1:].expand(lack, -1))) for each in rows))[
                :tokens
            ]

        def apply(*rows: Tensor) -> Tensor:
            if self.most is None or rows[0].shape[0] <= self.most:
                return one(*rows)
            pieces = zip(*(torch.split(each, self.most) for each in rows), strict=True)
            return torch.cat([one(*piece) for piece in pieces])

        return apply


ANY: Final = Amounts()
CHOICES: Final = (ANY, Amounts(2), Amounts(1, 32), Amounts(2, 32), Amounts(1, 8), Amounts(2, 8))
"""From the fastest on."""
SIZES: Final = (*range(1, 10), 15, 16, 17, 24, *range(31, 37), 48, *range(63, 69), 128, 256, 512)
"""Numbers of tokens that are compared: both sides of what kernels have been seen to care about."""
BLOCK: Final = 32
"""Queries that torch's attention kernel takes at a time, or a multiple of them."""


@dataclass(frozen=True, slots=True)
class Company:
    """How many queries of one attention may be left over of blocks: none, or at least so many."""

    least: int = 1

    def __contains__(self, queries: int) -> bool:
        return not self.lack(queries)

    def lack(self, queries: int) -> int:
        """How many more there must be."""
        return max(0, self.least - queries % BLOCK) if queries % BLOCK else 0


Choice = TypeVar("Choice", Amounts, Company)

COMPANIES: Final = tuple(Company(least) for least in (1, 2, 3, 4, 6, 8, 16))


def rounding(outputs: int, inputs: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Weights [O, I] and a token [1, I] whose exact product is nought, and that [1, O].

    What comes out is rounding errors, which tell the order of the sums.
    """
    source = torch.Generator().manual_seed(0)
    half = inputs // 2
    weight_OH = torch.randn(min(outputs, 1024), half, generator=source)
    token_H = torch.randn(half, generator=source)
    weight_OI = torch.nn.functional.pad(torch.cat((weight_OH, weight_OH), 1), (0, inputs % 2))
    token_I = torch.nn.functional.pad(torch.cat((token_H, -token_H)), (0, inputs % 2))
    mixed = torch.randperm(inputs, generator=source)
    repeats = -(-outputs // len(weight_OI))
    weight_OI = weight_OI[:, mixed].to(dtype).repeat(repeats, 1)[:outputs]
    token_1I = token_I[mixed].to(dtype)[None]
    return weight_OI.contiguous(), token_1I, torch.zeros(1, outputs, dtype=dtype)


KEYS: Final = 512
"""Keys that the same kernel takes at a time."""
KEYS_APART: Final = 32
"""Between two lengths of keys that are looked at. With others in between, bits depend on the number of queries."""


def _attend(q_XD: Tensor, k_LD: Tensor, v_LD: Tensor, own: int, scale: float) -> Tensor:
    """Attention of queries that see the first `own` keys."""
    mask_XL = torch.zeros(len(q_XD), len(k_LD), dtype=q_XD.dtype)
    mask_XL[:, own:] = -torch.inf
    out_11XD: Tensor = scaled_dot_product_attention(
        q_XD[None, None], k_LD[None, None], v_LD[None, None], mask_XL[None, None], scale=scale
    )
    return out_11XD[0, 0]


def _twins(own: int, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Keys and values [L, D] of which every two cancel out."""
    half_LD = torch.zeros(KEYS, head_dim)
    half_LD[: own // 2].normal_(generator=torch.Generator().manual_seed(1))
    again_LD = half_LD.roll(own // 2, 0)
    return (half_LD + again_LD).to(dtype), (half_LD - again_LD).to(dtype)


def attentions(head_dim: int, dtype: torch.dtype) -> tuple[list[Product], Tensor]:
    """Two attentions of a query [1, D]: of one, logits are rounding errors, of the other, outputs."""
    own, scale = KEYS - 12, head_dim**-0.5
    noughts_LD, query_1D, _ = rounding(KEYS, head_dim, dtype)
    k_LD, v_LD = _twins(own, head_dim, dtype)
    return [
        lambda q_XD: _attend(q_XD, noughts_LD, v_LD, own, 1e6),
        lambda q_XD: _attend(q_XD, k_LD, v_LD, own, scale),
    ], query_1D


def lengths(head_dim: int, dtype: torch.dtype) -> frozenset[int]:
    """How many keys may be left over of KEYS, so that a query has the bits that it has among all KEYS. 0 is one."""
    _, query_1D, _ = rounding(1, head_dim, dtype)
    q_XD = query_1D.repeat(BLOCK, 1)

    def agree(length: int, own: int) -> bool:
        k_LD, v_LD = _twins(own, head_dim, dtype)
        part, whole = (
            _attend(q_XD, k_LD[:end], v_LD[:end], own, head_dim**-0.5) for end in (length, KEYS)
        )
        return torch.equal(part, whole)

    def steady(length: int) -> bool:
        return all(agree(length, own) for own in range(length - KEYS_APART + 2, length + 1, 6))

    return frozenset({0, *filter(steady, range(KEYS_APART, KEYS, KEYS_APART))})


def find(products: Sequence[Product], token_1I: Tensor, choices: Sequence[Choice]) -> Choice | None:
    """The first choice in which all sizes give a token the same bits, whatever number of threads computes.

    That must hold for each of the products. None: it does in no choice.
    """
    seen = [_bits(product, token_1I) for product in products]
    return next((each for each in choices if all(_agree(bits, each) for bits in seen)), None)


def _bits(product: Product, token_1I: Tensor) -> dict[int, set[bytes]]:
    """By size, all that came out for the same token."""
    bits: dict[int, set[bytes]] = {size: set() for size in SIZES}
    team = torch.get_num_threads()
    try:
        for threads in {1, team}:
            torch.set_num_threads(threads)
            for size in SIZES:
                raw_TB = product(token_1I.repeat(size, 1)).contiguous().view(torch.uint8)
                others_TB = raw_TB[(raw_TB != raw_TB[0]).any(-1)]
                for row_B in (raw_TB[0], *others_TB):
                    bits[size].add(row_B.numpy().tobytes())
    finally:
        torch.set_num_threads(team)
    return bits


def _agree(bits: dict[int, set[bytes]], choice: Amounts | Company) -> bool:
    all_bits = [each for size, each in bits.items() if size in choice]
    return len(set[bytes]().union(*all_bits)) == 1
