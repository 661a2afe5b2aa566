"""The bias that a token lays on the logits of the slot behind it, and what is then likeliest: the loop of DSpark heads.

Slots come one after the other: the token of one is what the bias of the next is made of, and it is known when the whole
vocabulary was seen. So every slot needs a word from all programs. One program for each mirror would need none from
others, but would read the output side of the bias (U x M numbers: 78 MB for 152k tokens and rank 256) through one
multiprocessor, slot after slot and mirror after mirror. Programs that wait for each other within one launch must all
be resident, which is the scheduler's to grant, not the kernel's to know; and under Triton's interpreter, which runs one
after the other, they would wait forever. So the end of a launch is what they wait for: **one launch a slot**, in which
each program takes a chunk of the vocabulary for up to 64 mirrors together, and reads its part of the matrix once. What
a chunk found goes into one number for each mirror by an atomic maximum, whose order does not matter; the next launch
takes its tokens from there, so nothing else runs in between and the host need not know them. Where tokens are drawn,
`engine.kernels.sampling` runs in between, over what is noted here of every chunk.

Names: r mirrors of a tile, m numbers of the bias's narrow side, n tokens of a step.
"""

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))
COLDEST = tl.constexpr(1e-6)
LAST = tl.constexpr(0x7FFFFFFF)  # on the right of operators: the interpreter knows it there


@triton.jit
def packed(x, token):
    """A whole number that is greater for a greater logit, and of equal ones for the lower token."""
    bits = x.to(tl.int32, bitcast=True)
    ascending = bits ^ ((bits >> 31) & LAST)
    return (ascending.to(tl.int64) << 32) | (token * -1 + LAST).to(tl.int64)


@triton.jit
def unpacked(key):
    """The token of such a number."""
    return (key & LAST) * -1 + LAST


@triton.jit
def markov(
    logits, table, to, before, ids, heat_row, chunk_top, chunk_best, chunk_sum, key,
    rows, width, chunks,
    R: tl.constexpr, M: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
    GATHER: tl.constexpr, PACKED: tl.constexpr, MAPPED: tl.constexpr, KEYS: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """One chunk of the vocabulary for one tile of mirrors: logits [rows, width] of one slot become biased ones.

    The bias is `to` [width, M] times the row of `table` that belongs to the token before (`GATHER`; `before` holds
    tokens of the target, or numbers as the slot before `PACKED` them, whose tokens are the head's and may be `MAPPED`
    to the target's by `ids`), or times the mirror's own row. It is rounded to the numbers of the matrix, as a product
    of PyTorch is. Of the chunk are noted the largest logit, the lowest token that has it, and the sum of weights at the
    row's temperature. With `KEYS` the biased logits are kept nowhere but in `key`, else they are written back. A NaN is
    never the largest. `WIDEN` is for the interpreter, which does not know products of bfloat16.
    """
    tile, chunk = tl.program_id(0), tl.program_id(1)
    r = tile * R + tl.arange(0, R)
    m = tl.arange(0, WIDE)
    live_r = r < rows
    place_r = r.to(tl.int64)
    if GATHER:
        place_r = tl.load(before + r, mask=live_r, other=0).to(tl.int64)
        if PACKED:
            place_r = tl.where(live_r, unpacked(place_r), 0)
        if MAPPED:
            place_r = tl.load(ids + place_r, mask=live_r, other=0).to(tl.int64)
    narrow_rm = live_r[:, None] & (m < M)[None, :]
    z_rm = tl.load(table + place_r[:, None] * M + m[None, :], mask=narrow_rm, other=0.0)
    if WIDEN:
        z_rm = z_rm.to(tl.float32)
    heat_r = tl.maximum(tl.load(heat_row + r, mask=live_r, other=1.0), COLDEST)
    top_r = tl.full((R,), NEVER, tl.float32)
    best_r = tl.zeros((R,), tl.int32) + chunk * BLOCK
    sum_r = tl.zeros((R,), tl.float32)
    for start in range(chunk * BLOCK, tl.minimum((chunk + 1) * BLOCK, width), STEP):
        n = start + tl.arange(0, STEP)
        there_n = n < width
        wide_nm = there_n[:, None] & (m < M)[None, :]
        w_nm = tl.load(to + n.to(tl.int64)[:, None] * M + m[None, :], mask=wide_nm, other=0.0)
        if WIDEN:
            w_nm = w_nm.to(tl.float32)
        bias_rn = tl.dot(z_rm, tl.trans(w_nm), input_precision=PRECISION)
        there_rn = live_r[:, None] & there_n[None, :]
        at_rn = logits + r.to(tl.int64)[:, None] * width + n[None, :]
        x_rn = tl.load(at_rn, mask=there_rn, other=NEVER)
        x_rn += bias_rn.to(to.dtype.element_ty).to(tl.float32)
        if not KEYS:
            tl.store(at_rn, x_rn, mask=there_rn)
        x_rn = tl.where((x_rn != x_rn) | (there_n[None, :] == 0), NEVER, x_rn)
        here_r = tl.max(x_rn, 1)
        lowest_r = tl.min(tl.where(x_rn == here_r[:, None], n[None, :], LAST), 1)
        best_r = tl.where(here_r > top_r, lowest_r, best_r)
        higher_r = tl.maximum(top_r, here_r)
        base_r = tl.where(higher_r == NEVER, 0.0, higher_r)
        sum_r = sum_r * tl.exp((top_r - base_r) / heat_r)
        sum_r += tl.sum(tl.exp((x_rn - base_r[:, None]) / heat_r[:, None]), 1)
        top_r = higher_r
    noted_r = r.to(tl.int64) * chunks + chunk
    tl.store(chunk_top + noted_r, top_r, mask=live_r)
    tl.store(chunk_best + noted_r, best_r, mask=live_r)
    tl.store(chunk_sum + noted_r, sum_r, mask=live_r)
    if KEYS:
        tl.atomic_max(key + r, packed(top_r, best_r), mask=live_r)
