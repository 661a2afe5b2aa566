"""From rows of logits to what is drawn from them, in chunks of the vocabulary; see `engine.sampling` for what is meant.

A row is read once for its largest logit and its sum of weights; rows with filters a few times more, for the boundary of
what is kept. A draw then reads one chunk. *Scaled* logits are divided by the temperature and have 0 for the likeliest
token; as none is above 0, the bits of one without its sign (its *depth*) say which is less likely.

Names: v tokens of a chunk, c chunks of a row, j pivots of a search.
"""

import triton
import triton.language as tl

NEVER = tl.constexpr(float("-inf"))
EVER = tl.constexpr(float("inf"))
COLDEST = tl.constexpr(1e-6)
LARGEST = tl.constexpr(3.4028234663852886e38)
FLOOR_DEPTH = tl.constexpr(0x42A00000)  # of -80.0: whatever lies deeper has no weight
NOWHERE = tl.constexpr(2147483647)


@triton.jit
def coin(seed, position, choice, role, base):
    """`engine.philox.uniforms` of one name, in double precision."""
    zero = tl.zeros((1,), tl.uint32)
    w0, w1, _, _ = tl.philox(
        seed,
        zero + position.to(tl.uint32),
        zero + choice.to(tl.uint32),
        zero + role,
        zero + base.to(tl.uint32),
    )
    bits = (w0.to(tl.uint64) << 20) | (w1.to(tl.uint64) >> 12)
    return tl.sum((bits.to(tl.float64) + 0.5) * 2.220446049250313e-16, 0)


@triton.jit
def depth_of(x, top, heat):
    """How far below the likeliest token's a logit lies, as whole numbers that rise with the distance."""
    scaled = tl.div_rn(x - top, tl.zeros_like(x) + heat)
    return scaled, scaled.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def adjust(
    logits, edit_row, edit_window, edit_place,
    list_begin, list_end, list_id, list_count, list_seen, list_bias,
    guess_begin, guess_token, repetition, presence, frequency, width,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Biases and penalties of one row, whose window has a list of the tokens concerned; see `engine.adjust`."""
    edit = tl.program_id(0)
    row = tl.load(edit_row + edit).to(tl.int64)
    window, place = tl.load(edit_window + edit), tl.load(edit_place + edit)
    at = tl.load(list_begin + window) + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = at < tl.load(list_end + window)
    token = tl.load(list_id + at, mask=there, other=0)
    count = tl.load(list_count + at, mask=there, other=0)
    guesses = guess_token + tl.load(guess_begin + window)
    for before in range(place):
        count += (tl.load(guesses + before) == token).to(tl.int32)
    seen = (tl.load(list_seen + at, mask=there, other=0) != 0) | (count > 0)
    x = tl.load(logits + row * width + token, mask=there, other=0.0)
    x = x + tl.load(list_bias + at, mask=there, other=0.0)
    penalty = tl.load(repetition + window)
    worse = tl.where(x > 0, tl.div_rn(x, tl.zeros_like(x) + penalty), x * penalty)
    x = tl.where(penalty != 1.0, tl.where(seen, tl.minimum(worse, LARGEST), x), x)
    fewer = tl.load(presence + window) + tl.load(frequency + window) * count.to(tl.float32)
    x = tl.where(count > 0, x - fewer, x)
    tl.store(logits + row * width + token, x, mask=there)


@triton.jit
def summarise(
    logits, masks, mask_row, chunk_top, chunk_best, chunk_sum, heat_row,
    width, chunks, words,
    BLOCK: tl.constexpr, MASKS: tl.constexpr,
):  # fmt: skip
    """Of one chunk: its largest logit, the lowest token that has it, and the weights against it.

    A chunk with a NaN or an infinity has a largest logit of infinity. Where a row has a mask (bit i of word i // 32 is
    token i), what it does not allow is written over.
    """
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = chunk * BLOCK + tl.arange(0, BLOCK)
    there = at < width
    x = tl.load(logits + row * width + at, mask=there, other=NEVER)
    if MASKS:
        mask = tl.load(mask_row + row).to(tl.int64)
        if mask >= 0:
            word = tl.load(
                masks + mask * words + at // 32, mask=there & (at // 32 < words), other=0
            )
            banned = there & (((word >> (at % 32)) & 1) == 0)
            x = tl.where(banned, NEVER, x)
            tl.store(logits + row * width + at, x, mask=banned)
    strange = tl.sum(((x != x) | (x == EVER)).to(tl.int32), 0) > 0
    x = tl.where(x < EVER, x, NEVER)  # which a NaN is not
    top = tl.max(x, 0)
    best = tl.min(tl.where((x == top) & there, at, NOWHERE), 0)
    heat = tl.maximum(tl.load(heat_row + row), COLDEST)
    base = tl.where(top == NEVER, 0.0, top)
    total = tl.sum(tl.exp(tl.div_rn(x - base, tl.zeros_like(x) + heat)), 0)
    place = row * chunks + chunk
    tl.store(chunk_top + place, tl.where(strange, EVER, top))
    tl.store(chunk_best + place, best)
    tl.store(chunk_sum + place, total)


@triton.jit
def reached(
    logits, chunk_top, row, top, heat, deepest, pivot_j, chunks, width,
    BLOCK: tl.constexpr, STEP: tl.constexpr, J: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """How many tokens lie not deeper than each pivot and than `deepest`, or their mass."""
    found_j = tl.zeros((J,), tl.float64)
    for chunk in range(chunks):
        _, nearest = depth_of(tl.load(chunk_top + row * chunks + chunk), top, heat)
        if nearest <= deepest:
            for start in range(chunk * BLOCK, tl.minimum((chunk + 1) * BLOCK, width), STEP):
                at = start + tl.arange(0, STEP)
                x = tl.load(logits + row * width + at, mask=at < width, other=NEVER)
                scaled, depth = depth_of(x, top, heat)
                weight = tl.where(depth <= deepest, 1.0, 0.0)
                if MASS:
                    weight = weight * tl.exp(scaled)
                within = depth[None, :] <= pivot_j[:, None]
                found_j += tl.sum(tl.where(within, weight[None, :], 0.0), 1).to(tl.float64)
    return found_j


@triton.jit
def shallowest(
    logits, chunk_top, row, top, heat, deepest, wanted, chunks, width,
    BLOCK: tl.constexpr, STEP: tl.constexpr, J: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """The least depth down to which `wanted` tokens (or so much mass) are found; `deepest` where there is less.

    Every pass over the row asks for J pivots at once, and leaves a J+1st of the depths that were in question.
    """
    j = tl.arange(0, J)
    low, high = deepest * 0, deepest
    while low < high:
        step = tl.cdiv(high - low, J + 1)
        pivot_j = tl.minimum(low + step * (j + 1) - 1, high - 1)
        found_j = reached(
            logits, chunk_top, row, top, heat, high - 1, pivot_j, chunks, width,
            BLOCK, STEP, J, MASS,
        )  # fmt: skip
        enough_j = found_j >= wanted
        least = tl.min(tl.where(enough_j, pivot_j, high), 0)
        low = tl.maximum(low, tl.max(tl.where(enough_j, low - 1, pivot_j), 0) + 1)
        high = least
    return high


@triton.jit
def filter_rows(
    logits, rows, chunk_top, chunk_sum, row_top, row_depth, heat_row, top_k, top_p, floor_row,
    chunks, width,
    BLOCK: tl.constexpr, CHUNKS: tl.constexpr, STEP: tl.constexpr, J: tl.constexpr,
):  # fmt: skip
    """The boundary of one row with filters, and the weights that are left of its chunks, against the row's largest."""
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    c = tl.arange(0, CHUNKS)
    top_c = tl.load(chunk_top + row * chunks + c, mask=c < chunks, other=NEVER)
    top = tl.max(top_c, 0)
    if (top == NEVER) | (top == EVER):
        return
    heat = tl.maximum(tl.load(heat_row + row), COLDEST)
    deepest = tl.full((), FLOOR_DEPTH, tl.int32)
    count = tl.load(top_k + row)
    if (count > 0) & (count < width):
        deepest = shallowest(
            logits, chunk_top, row, top, heat, deepest, count.to(tl.float64), chunks, width,
            BLOCK, STEP, J, False,
        )  # fmt: skip
    share = tl.load(top_p + row)
    if share < 1.0:
        pivot_j = tl.zeros((J,), tl.int32) + deepest
        mass_j = reached(
            logits, chunk_top, row, top, heat, deepest, pivot_j, chunks, width,
            BLOCK, STEP, J, True,
        )  # fmt: skip
        deepest = shallowest(
            logits, chunk_top, row, top, heat, deepest, share * tl.max(mass_j, 0), chunks, width,
            BLOCK, STEP, J, True,
        )  # fmt: skip
    deepest = tl.minimum(deepest, tl.load(floor_row + row))
    tl.store(row_depth + row, deepest)
    for chunk in range(chunks):
        _, nearest = depth_of(tl.load(chunk_top + row * chunks + chunk), top, heat)
        total = 0.0
        if nearest <= deepest:
            at = chunk * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(logits + row * width + at, mask=at < width, other=NEVER)
            scaled, depth = depth_of(x, top, heat)
            total += tl.sum(tl.where(depth <= deepest, tl.exp(scaled), 0.0), 0)
        tl.store(chunk_sum + row * chunks + chunk, total)
    tl.store(row_top + row, top)


@triton.jit
def chunk_weights(
    chunk_top, chunk_sum, row_depth, row, top, heat, chunks, CHUNKS: tl.constexpr
):  # fmt: skip
    """The weights of a row's chunks against its largest logit; those of a filtered row are so already."""
    c = tl.arange(0, CHUNKS)
    sum_c = tl.load(chunk_sum + row * chunks + c, mask=c < chunks, other=0.0)
    top_c = tl.load(chunk_top + row * chunks + c, mask=c < chunks, other=NEVER)
    shrink_c = tl.exp(tl.div_rn(top_c - top, tl.zeros_like(top_c) + heat))
    filtered = tl.load(row_depth + row) != NOWHERE
    weight_c = tl.where(filtered, sum_c, sum_c * shrink_c)
    return tl.where(c < chunks, weight_c, 0.0).to(tl.float64)


@triton.jit
def first_above(weight_v, wanted):
    """The first place at which the running sum exceeds `wanted`, and the sum before it; the last with weight, else."""
    v = tl.arange(0, weight_v.shape[0])
    reached_v = tl.cumsum(weight_v, 0)
    above = tl.min(tl.where(reached_v > wanted, v, NOWHERE), 0)
    last = tl.max(tl.where(weight_v > 0.0, v, 0), 0)
    place = tl.minimum(above, last)
    before = tl.sum(tl.where(v < place, weight_v, 0.0), 0)
    return place, before


@triton.jit
def finish_rows(
    logits, chunk_top, chunk_best, chunk_sum, row_top, row_depth, row_total, row_token, row_state,
    heat_row, seeds, choices, positions,
    chunks, width,
    BLOCK: tl.constexpr, CHUNKS: tl.constexpr, DRAW: tl.constexpr, ROLE: tl.constexpr,
):  # fmt: skip
    """Of one row: its largest logit, the sum of its weights, and a token: the likeliest at temperature 0, else a draw.

    The state is 0, or 1 where nothing may be drawn, or 2 where the logits are not numbers.
    """
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHUNKS)
    top_c = tl.load(chunk_top + row * chunks + c, mask=c < chunks, other=NEVER)
    top = tl.max(top_c, 0)
    state = tl.where(top == NEVER, 1, tl.where(top == EVER, 2, 0))
    tl.store(row_state + row, state)
    tl.store(row_top + row, top)
    if state != 0:
        tl.store(row_token + row, 0)
        tl.store(row_total + row, 0.0)
        return
    heat = tl.load(heat_row + row)
    cold = heat == 0.0
    heat = tl.maximum(heat, COLDEST)
    weight_c = chunk_weights(chunk_top, chunk_sum, row_depth, row, top, heat, chunks, CHUNKS)
    total = tl.sum(weight_c, 0)
    tl.store(row_total + row, total)
    best_c = tl.load(chunk_best + row * chunks + c, mask=c < chunks, other=NOWHERE)
    token = tl.min(tl.where(top_c == top, best_c, NOWHERE), 0)
    if DRAW:
        if not cold:
            uniform = coin(
                tl.load(seeds + row), tl.load(positions + row), tl.load(choices + row), ROLE,
                tl.load(positions + row) * 0,
            )  # fmt: skip
            wanted = uniform * total
            chunk, before = first_above(weight_c, wanted)
            at = chunk * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(logits + row * width + at, mask=at < width, other=NEVER)
            scaled, depth = depth_of(x, top, heat)
            kept = depth <= tl.minimum(tl.load(row_depth + row), FLOOR_DEPTH)
            weight_v = tl.where(kept, tl.exp(scaled), 0.0).to(tl.float64)
            place, _ = first_above(weight_v, wanted - before)
            token = chunk * BLOCK + place
    tl.store(row_token + row, token)
