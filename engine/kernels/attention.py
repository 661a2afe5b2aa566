"""Attention of ragged rows over paged KV: every row has any number of new tokens, in one launch.

A program takes a tile: some neighbouring tokens of one row, and the query heads that share one key head. Keys are taken
`SPLIT` at a time, from position 0 on; of rows with few tokens the splits are dealt to several programs, which leave
partial sums for `merge`. Where splits begin does not depend on who else is in the batch.

Names: m query rows of a tile (token, head), n keys of a step, d numbers of a head.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
NEVER = tl.constexpr(float("-inf"))


@triton.jit
def ragged(
    out, partial, weight,
    q, kv, sinks,
    last, seen, table,
    tile_row, tile_token, tile_count, tile_keys, tile_own, tile_part,
    q_token, q_head, table_row, splits,
    scale, softcap, window,
    K: tl.constexpr, G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, WIDE: tl.constexpr, SPLIT: tl.constexpr, LANES: tl.constexpr,
    TREE: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, SINKS: tl.constexpr,
    PRECISION: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """One tile and one key head; `out` [T, K*G, D], or `partial` [U, splits, K*G, D] and `weight` without the last.

    `last` is the last position each token sees, `tile_keys` how many keys a tile's tokens see together. Of a tree,
    key `tile_own` + j is seen where bit j of `seen` is set; elsewhere `tile_own` lies behind all keys. `tile_part` is
    the row of `partial` of a tile's first token, -1 where one program takes all its keys. `WIDEN` is for the
    interpreter, which does not know products of bfloat16.
    """
    tile, head = tl.program_id(0), tl.program_id(1)
    lane = tl.program_id(2)
    count = tl.load(tile_count + tile)
    part = tl.load(tile_part + tile)
    keys = tl.load(tile_keys + tile)
    parted = (part >= 0) & (keys > SPLIT)
    shares = tl.where(parted, tl.cdiv(keys, SPLIT), 1)
    if (count == 0) | (lane >= shares):
        return
    row = tl.load(tile_row + tile).to(tl.int64)
    first = tl.load(tile_token + tile)
    own = tl.load(tile_own + tile)
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    d = tl.arange(0, WIDE)
    live = m // G < count
    token = (first + m // G).to(tl.int64)
    query = head * G + m % G
    inside = live[:, None] & (d < D)[None, :]
    at_m = tl.load(last + token, mask=live, other=-1)
    q_md = tl.load(
        q + token[:, None] * q_token + query[:, None] * q_head + d[None, :], mask=inside, other=0.0
    )
    if WIDEN:
        q_md = q_md.to(tl.float32)
    bits_m = tl.zeros((M,), tl.int64)
    if TREE:
        bits_m = tl.load(seen + token, mask=live, other=0)
    least = 0
    if WINDOW:
        least = tl.maximum(tl.min(tl.where(live, at_m, 2147483647), 0) - window + 1, 0)
        least = least // N * N
    for share in range(lane, shares, LANES):
        begin = tl.maximum(share * SPLIT, least)
        end = tl.where(parted, tl.minimum(keys, (share + 1) * SPLIT), keys)
        top_m = tl.full((M,), NEVER, tl.float32)
        sum_m = tl.zeros((M,), tl.float32)
        acc_md = tl.zeros((M, WIDE), tl.float32)
        for start in range(begin, end, N):
            key_n = start + n
            there = key_n < end
            page_n = tl.load(table + row * table_row + key_n // PAGE, mask=there, other=0)
            slot_n = page_n.to(tl.int64) * PAGE + key_n % PAGE
            place_nd = (slot_n * (2 * K * D) + head * D)[:, None] + d[None, :]
            got = there[:, None] & (d < D)[None, :]
            k_nd = tl.load(kv + place_nd, mask=got, other=0.0).to(q.dtype.element_ty)
            if WIDEN:
                k_nd = k_nd.to(tl.float32)
            x_mn = tl.dot(q_md, tl.trans(k_nd), input_precision=PRECISION) * scale
            if SOFTCAP:
                x_mn = softcap * (2.0 * tl.sigmoid(2.0 * x_mn / softcap) - 1.0)
            x_mn = x_mn * LOG2E
            shown = there[None, :] & (key_n[None, :] <= at_m[:, None])
            if WINDOW:
                shown = shown & (key_n[None, :] > at_m[:, None] - window)
            if TREE:
                bit_n = tl.minimum(tl.maximum(key_n - own, 0), 63).to(tl.int64)
                among = ((bits_m[:, None] >> bit_n[None, :]) & 1) == 1
                shown = tl.where((key_n >= own)[None, :], among & there[None, :], shown)
            x_mn = tl.where(shown, x_mn, NEVER)
            higher_m = tl.maximum(top_m, tl.max(x_mn, 1))
            base_m = tl.where(higher_m == NEVER, 0.0, higher_m)
            shrink_m = tl.exp2(top_m - base_m)
            w_mn = tl.exp2(x_mn - base_m[:, None])
            sum_m = sum_m * shrink_m + tl.sum(w_mn, 1)
            v_nd = tl.load(kv + place_nd + K * D, mask=got, other=0.0).to(q.dtype.element_ty)
            w_mn = w_mn.to(q.dtype.element_ty)
            if WIDEN:
                v_nd, w_mn = v_nd.to(tl.float32), w_mn.to(tl.float32)
            acc_md = acc_md * shrink_m[:, None]
            acc_md += tl.dot(w_mn, v_nd, input_precision=PRECISION)
            top_m = higher_m
        if parted:
            place_m = ((part + m // G).to(tl.int64) * splits + share) * (K * G) + query
            tl.store(partial + place_m[:, None] * D + d[None, :], acc_md, mask=inside)
            tl.store(weight + 2 * place_m, top_m, mask=live)
            tl.store(weight + 2 * place_m + 1, sum_m, mask=live)
        else:
            if SINKS:
                sink_m = tl.load(sinks + query).to(tl.float32) * LOG2E
                higher_m = tl.maximum(top_m, sink_m)
                shrink_m = tl.exp2(top_m - higher_m)
                sum_m = sum_m * shrink_m + tl.exp2(sink_m - higher_m)
                acc_md = acc_md * shrink_m[:, None]
            acc_md = acc_md / tl.where(sum_m == 0.0, 1.0, sum_m)[:, None]
            place_md = (token * (K * G) + query)[:, None] * D + d[None, :]
            tl.store(out + place_md, acc_md.to(out.dtype.element_ty), mask=inside)


@triton.jit
def merge(
    out, partial, weight, sinks, part_token, part_keys, splits,
    A: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, SPLIT: tl.constexpr, SINKS: tl.constexpr,
):  # fmt: skip
    """Put the partial sums of one token and query head together, in the order of their keys."""
    part, query = tl.program_id(0), tl.program_id(1)
    keys = tl.load(part_keys + part)
    if keys <= SPLIT:
        return
    d = tl.arange(0, WIDE)
    top = tl.full((1,), NEVER, tl.float32)
    total = tl.zeros((1,), tl.float32)
    acc_d = tl.zeros((WIDE,), tl.float32)
    for share in range(tl.cdiv(keys, SPLIT)):
        place = (part.to(tl.int64) * splits + share) * A + query
        top_here = tl.load(weight + 2 * place + tl.arange(0, 1))
        sum_here = tl.load(weight + 2 * place + 1 + tl.arange(0, 1))
        acc_here = tl.load(partial + place * D + d, mask=d < D, other=0.0)
        higher = tl.maximum(top, top_here)
        base = tl.where(higher == NEVER, 0.0, higher)
        total = total * tl.exp2(top - base) + sum_here * tl.exp2(top_here - base)
        acc_d = acc_d * tl.exp2(top - base) + acc_here * tl.exp2(top_here - base)
        top = higher
    if SINKS:
        sink = tl.load(sinks + query + tl.arange(0, 1)).to(tl.float32) * LOG2E
        higher = tl.maximum(top, sink)
        total = total * tl.exp2(top - higher) + tl.exp2(sink - higher)
        acc_d = acc_d * tl.exp2(top - higher)
    acc_d = acc_d / tl.where(total == 0.0, 1.0, total)
    token = tl.load(part_token + part).to(tl.int64)
    tl.store(out + (token * A + query) * D + d, acc_d.to(out.dtype.element_ty), mask=d < D)


@triton.jit
def to_short(x, BITS: tl.constexpr, LARGEST: tl.constexpr, LEAST: tl.constexpr):
    """The nearest number with so many bits behind its first, ties to even; beyond the largest, that.

    Below `LEAST` numbers are evenly spaced. Conversions of compilers and of the interpreter differ; of what comes of
    this they change nothing.
    """
    x = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)
    bits = x.to(tl.int32, bitcast=True)
    cut: tl.constexpr = 23 - BITS
    bits += (1 << (cut - 1)) - 1 + ((bits >> cut) & 1)
    near = ((bits >> cut) << cut).to(tl.float32, bitcast=True)
    even: tl.constexpr = (
        1.5 * (1 << cut) * LEAST
    )  # beside it float32 is spaced as short numbers are
    return tl.where(tl.abs(x) < LEAST, (x + even) - even, near)


@triton.jit
def turn_and_store(
    qkv, kv, cos, sin, slots, qkv_token,
    A: tl.constexpr, K: tl.constexpr, D: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
    BITS: tl.constexpr, LARGEST: tl.constexpr, LEAST: tl.constexpr,
):  # fmt: skip
    """Turn queries and keys of one token by its angles, and put its keys and values into its slot.

    The sines of the first half are negated (`engine.rotary.tables`). Where pages hold numbers of one byte, these have
    `BITS` behind their first (0: pages hold others), and range from `LEAST`, the least normal one, to `LARGEST`.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    d = tl.arange(0, HALF)
    there = (head < A + 2 * K)[:, None] & (d < D // 2)[None, :]
    from_hd = qkv + token * qkv_token + head[:, None] * D + d[None, :]
    left = tl.load(from_hd, mask=there, other=0.0)
    right = tl.load(from_hd + D // 2, mask=there, other=0.0)
    angle = token * D + d
    cos_left = tl.load(cos + angle, mask=d < D // 2, other=0.0).to(tl.float32)[None, :]
    cos_right = tl.load(cos + angle + D // 2, mask=d < D // 2, other=0.0).to(tl.float32)[None, :]
    sin_left = tl.load(sin + angle, mask=d < D // 2, other=0.0).to(tl.float32)[None, :]
    sin_right = tl.load(sin + angle + D // 2, mask=d < D // 2, other=0.0).to(tl.float32)[None, :]
    x, y = left.to(tl.float32), right.to(tl.float32)
    turned = (head < A + K)[:, None]
    x_new = tl.where(turned, x * cos_left + y * sin_left, x)
    y_new = tl.where(turned, y * cos_right + x * sin_right, y)
    asks = there & (head < A)[:, None]
    tl.store(from_hd, x_new.to(left.dtype), mask=asks)
    tl.store(from_hd + D // 2, y_new.to(left.dtype), mask=asks)
    slot = tl.load(slots + token).to(tl.int64)
    to_hd = kv + slot * (2 * K * D) + (head - A)[:, None] * D + d[None, :]
    kept = there & (head >= A)[:, None]
    if BITS:
        x_new, y_new = to_short(x_new, BITS, LARGEST, LEAST), to_short(y_new, BITS, LARGEST, LEAST)
    tl.store(to_hd, x_new.to(kv.dtype.element_ty), mask=kept)
    tl.store(to_hd + D // 2, y_new.to(kv.dtype.element_ty), mask=kept)
