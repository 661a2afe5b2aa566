"""From the final states of a block's slots to guesses: every slot for itself, or one after the other.

Shapes: R mirrors, J slots that guess, H hidden, U vocabulary of the head, M rank of the bias.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from torch import Tensor

from drafter.guesses import Guess, Place
from drafter.heads.block import BlockHead, Markov
from drafter.heads.drawn import Drawn, read
from drafter.heads.draws import Asked, draw, plain
from drafter.heads.tails import length, text
from drafter.mirror import Mirror


def at_once(
    head: BlockHead, x_RJH: Tensor, mirrors: Sequence[Mirror], *, samples: bool
) -> list[list[Guess]]:
    """Every slot for itself: no law depends on what another slot drew."""
    R, J, H = x_RJH.shape
    places = [Place(mirror, length(mirror) + slot) for mirror in mirrors for slot in range(J)]
    logits_NU = head.vocabulary.logits(x_RJH.reshape(R * J, H))
    drawn = head.vocabulary.draw(logits_NU, places, samples=samples)
    (guesses,) = read(head.device, [drawn])
    return [guesses[row * J : (row + 1) * J] for row in range(R)]


def one_by_one(
    head: BlockHead, x_RJH: Tensor, mirrors: Sequence[Mirror], *, samples: bool
) -> list[list[Guess]]:
    """Slot after slot, each with a bias from the token before it, for all mirrors at once.

    The confidence of a drawn guess depends on the guesses before it at most: it is the confidence head's, or else how
    likely the likeliest token was without the bias.
    """
    chosen = _plainly if head.fused is None else _fused
    slots = read(head.device, chosen(head, x_RJH, mirrors, samples=samples))
    return [list(block) for block in zip(*slots, strict=True)]


def _plainly(
    head: BlockHead, x_RJH: Tensor, mirrors: Sequence[Mirror], *, samples: bool
) -> list[Drawn]:
    """By PyTorch; of every slot, all mirrors."""
    R, J, H = x_RJH.shape
    base_RJU = head.vocabulary.logits(x_RJH.reshape(R * J, H)).view(R, J, -1)
    before_R = head.device.up({"before": _anchors(mirrors)})["before"]
    memory_RM = head.markov.start(R) if head.markov else None
    slots: list[Drawn] = []
    for slot in range(J):
        x_RH, logits_RU, before_RM = x_RJH[:, slot], base_RJU[:, slot], None
        if head.markov is not None and memory_RM is not None:
            before_RM = head.markov.before(before_R)
            bias_RU, memory_RM = head.markov.step(before_RM, x_RH, memory_RM)
            logits_RU = logits_RU + bias_RU
        drawn = head.vocabulary.draw(
            logits_RU.contiguous(), _places(mirrors, slot), samples=samples
        )
        before_R = drawn.token_N
        if head.confidence is not None:
            drawn = drawn.sure(head.confidence(x_RH, before_RM, slot))
        elif samples:
            drawn = drawn.sure(base_RJU[:, slot].softmax(dim=-1).amax(dim=-1))
        slots.append(drawn)
    return slots


def _fused(
    head: BlockHead, x_RJH: Tensor, mirrors: Sequence[Mirror], *, samples: bool
) -> list[Drawn]:
    """The same, with the bias by a kernel that never shows the host a token."""
    R, J, H = x_RJH.shape
    x_JRH = x_RJH.transpose(0, 1).contiguous()
    base_JRU = head.vocabulary.logits(x_JRH.view(J * R, H)).view(J, R, -1)
    unbiased_JR = None
    if samples and head.confidence is None:
        unbiased_JR = (base_JRU.amax(dim=-1) - base_JRU.logsumexp(dim=-1)).exp()
    asked = [Asked.of(_places(mirrors, slot), samples=samples) for slot in range(J)]
    arrays = [each.arrays for each in asked]
    named = {
        f"{slot} {name}": array for slot, each in enumerate(arrays) for name, array in each.items()
    }
    on = head.device.up(named | {"before": _anchors(mirrors)})
    if all(each.greedy for each in asked):
        slots = _likeliest(head, x_JRH, base_JRU, on["before"])
    else:
        ons = [{name: on[f"{slot} {name}"] for name in arrays[slot]} for slot in range(J)]
        slots = _drawn(head, x_JRH, base_JRU, on["before"], list(zip(asked, ons, strict=True)))
    return list(_sure(head, slots, on["before"], x_JRH, unbiased_JR))


def _likeliest(head: BlockHead, x_JRH: Tensor, base_JRU: Tensor, before_R: Tensor) -> list[Drawn]:
    """Without a draw: nothing but the kernel, if the bias is of the token before alone."""
    assert head.markov is not None
    assert head.fused is not None
    own = None if head.markov.kind == "vanilla" else _Narrow(head.markov, x_JRH)
    token_JR, chance_JR = head.fused.likeliest(base_JRU, before_R, own)
    return [plain(token_R, chance_R) for token_R, chance_R in zip(token_JR, chance_JR, strict=True)]


def _drawn(
    head: BlockHead,
    x_JRH: Tensor,
    base_JRU: Tensor,
    before_R: Tensor,
    slots: Sequence[tuple[Asked, Mapping[str, Tensor]]],
) -> list[Drawn]:
    """Each slot's logits biased, and drawn from."""
    assert head.markov is not None
    assert head.fused is not None
    narrow = _Narrow(head.markov, x_JRH)
    ids_U, made = head.vocabulary.ids_U, []
    for slot, (asked, on) in enumerate(slots):
        logits_RU = base_JRU[slot]
        summary = head.fused.add(logits_RU, narrow(slot, before_R), on["heat"])
        each = draw(head.device, logits_RU, asked, ids_U=ids_U, on=on, summary=summary)
        before_R = each.token_N
        made.append(each)
    return made


def _sure(
    head: BlockHead,
    slots: Iterable[Drawn],
    before_R: Tensor,
    x_JRH: Tensor,
    unbiased_JR: Tensor | None,
) -> Iterable[Drawn]:
    """How sure each slot is, now that the tokens before all of them are known."""
    assert head.markov is not None
    for slot, drawn in enumerate(slots):
        if head.confidence is not None:
            before_RM = head.markov.before(before_R)
            yield drawn.sure(head.confidence(x_JRH[slot], before_RM, slot))
        else:
            yield drawn if unbiased_JR is None else drawn.sure(unbiased_JR[slot])
        before_R = drawn.token_N


class _Narrow:
    """What the bias of each slot is made of, slot after slot; see `engine.markov_triton.Narrow`."""

    def __init__(self, markov: Markov, x_JRH: Tensor) -> None:
        self._markov = markov
        self._x_JRH = x_JRH
        self._memory_RM = markov.start(x_JRH.shape[1])

    def __call__(self, slot: int, before_R: Tensor) -> Tensor:
        before_RM = self._markov.before(before_R)
        narrow_RM, self._memory_RM = self._markov.narrow(
            before_RM, self._x_JRH[slot], self._memory_RM
        )
        return narrow_RM


def _anchors(mirrors: Sequence[Mirror]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([text(mirror, length(mirror) - 1)[0] for mirror in mirrors], np.int64)


def _places(mirrors: Sequence[Mirror], slot: int) -> list[Place]:
    return [Place(mirror, length(mirror) + slot) for mirror in mirrors]
