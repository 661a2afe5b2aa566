"""How many guesses of a window are kept, and the token that ends it: `verifier.rules.decisions` by window, on a device.

Names: k tokens of a guess's law, c chunks of a row, v tokens of a chunk.
"""

import triton
import triton.language as tl

from engine.kernels.sampling import (
    COLDEST,
    FLOOR_DEPTH,
    NEVER,
    NOWHERE,
    chunk_weights,
    coin,
    depth_of,
    first_above,
)

RATIO = tl.constexpr(0)
BLOCKS = tl.constexpr(1)
THRESHOLD = tl.constexpr(2)
CURVE = tl.constexpr(3)


@triton.jit
def law_of(
    logits, law_id, law_share, row_top, row_depth, row, guess, heat, width,
    LAW: tl.constexpr,
):  # fmt: skip
    """Of one guess: ids, what it was drawn from, and the target's weights of them."""
    k = tl.arange(0, LAW)
    id_k = tl.load(law_id + guess.to(tl.int64) * LAW + k)
    share_k = tl.load(law_share + guess.to(tl.int64) * LAW + k)
    x = tl.load(logits + row * width + id_k, mask=id_k >= 0, other=NEVER)
    scaled, depth = depth_of(x, tl.load(row_top + row), heat)
    kept = (depth <= tl.minimum(tl.load(row_depth + row), FLOOR_DEPTH)) & (id_k >= 0)
    weight_k = tl.where(kept, tl.exp(scaled), 0.0).to(tl.float64)
    return id_k, share_k, weight_k


@triton.jit
def joined(joint, p, q):
    """min(1, joint p / q), where p / 0 is infinite for a p above 0."""
    full = joint * p >= q
    part = joint * p / tl.where(q > 0.0, q, 1.0)
    return tl.where((p == 0.0) | (joint == 0.0), 0.0, tl.where(full, 1.0, part))


@triton.jit
def rest_of(
    logits, law_id, law_share, chunk_top, chunk_best, chunk_sum, row_top, row_depth, row_total,
    row, guess, scale, uniform, heat, cold, chunks, width,
    BLOCK: tl.constexpr, CHUNKS: tl.constexpr, LAW: tl.constexpr, WITHOUT: tl.constexpr,
):  # fmt: skip
    """A token of what is left of a row without a guess's law over `scale`; all of it where `guess` is -1.

    Where nothing would be left, nothing is taken. A cold row yields its likeliest token, `WITHOUT` the guess or not.
    """
    c = tl.arange(0, CHUNKS)
    v = tl.arange(0, BLOCK)
    top = tl.load(row_top + row)
    top_c = tl.load(chunk_top + row * chunks + c, mask=c < chunks, other=NEVER)
    best_c = tl.load(chunk_best + row * chunks + c, mask=c < chunks, other=NOWHERE)
    if cold:
        if WITHOUT and guess >= 0:
            token = tl.load(law_id + guess.to(tl.int64) * LAW)
            at = token // BLOCK * BLOCK + v
            x = tl.load(logits + row * width + at, mask=(at < width) & (at != token), other=NEVER)
            left = tl.max(x, 0)
            best = tl.min(tl.where((x == left) & (at < width) & (at != token), at, NOWHERE), 0)
            top_c = tl.where(c == token // BLOCK, left, top_c)
            best_c = tl.where(c == token // BLOCK, best, best_c)
        chosen = tl.min(tl.where(top_c == tl.max(top_c, 0), best_c, NOWHERE), 0)
    else:
        weight_c = chunk_weights(chunk_top, chunk_sum, row_depth, row, top, heat, chunks, CHUNKS)
        total = tl.load(row_total + row)
        bottom = tl.minimum(tl.load(row_depth + row), FLOOR_DEPTH)
        taking = guess >= 0
        if taking:
            first = guess.to(tl.int64) * LAW
            for index in range(LAW):
                token = tl.load(law_id + first + index)
                if token >= 0:
                    at = token // BLOCK * BLOCK + v
                    weight_v = left_of(
                        logits, law_id, law_share, row, first, at, top, heat, bottom, total, scale,
                        width, LAW,
                    )  # fmt: skip
                    weight_c = tl.where(c == token // BLOCK, tl.sum(weight_v, 0), weight_c)
            if tl.sum(weight_c, 0) <= 0.0:
                taking = taking & False
                weight_c = chunk_weights(
                    chunk_top, chunk_sum, row_depth, row, top, heat, chunks, CHUNKS
                )
        wanted = uniform * tl.sum(weight_c, 0)
        chunk, before = first_above(weight_c, wanted)
        at = chunk * BLOCK + v
        x = tl.load(logits + row * width + at, mask=at < width, other=NEVER)
        scaled, depth = depth_of(x, top, heat)
        weight_v = tl.where(depth <= bottom, tl.exp(scaled), 0.0).to(tl.float64)
        if taking:
            weight_v = left_of(
                logits, law_id, law_share, row, guess.to(tl.int64) * LAW, at, top, heat, bottom,
                total, scale, width, LAW,
            )  # fmt: skip
        place, _ = first_above(weight_v, wanted - before)
        chosen = chunk * BLOCK + place
    return chosen


@triton.jit
def left_of(
    logits, law_id, law_share, row, first, at, top, heat, bottom, total, scale, width,
    LAW: tl.constexpr,
):  # fmt: skip
    """Weights of the tokens `at`, after a law was taken off; none falls below 0."""
    x = tl.load(logits + row * width + at, mask=at < width, other=NEVER)
    scaled, depth = depth_of(x, top, heat)
    weight_v = tl.where(depth <= bottom, tl.exp(scaled), 0.0).to(tl.float64)
    for index in range(LAW):
        token = tl.load(law_id + first + index)
        taken = tl.load(law_share + first + index) / scale * total
        weight_v = tl.where(at == token, tl.maximum(weight_v - taken, 0.0), weight_v)
    return weight_v


@triton.jit
def decide(
    logits, chunk_top, chunk_best, chunk_sum, row_top, row_depth, row_total, row_state,
    heat_row, seeds, choices, positions,
    windows, window_row, window_draws, window_tested, window_guess, window_base,
    guess_token, guess_share, law_id, law_share, curve,
    kept_out, token_out, state_out,
    single, accumulated, chunks, width,
    RULE: tl.constexpr, BLOCK: tl.constexpr, CHUNKS: tl.constexpr, LAW: tl.constexpr,
    ACCEPT: tl.constexpr, FINAL: tl.constexpr,
):  # fmt: skip
    """One window: guesses kept, the token behind them (-1: none), and the state of the row that ended it."""
    window = tl.load(windows + tl.program_id(0))
    begin = tl.load(window_row + window).to(tl.int64)
    draws, tested = tl.load(window_draws + window), tl.load(window_tested + window)
    guess = tl.load(window_guess + window)
    base = tl.load(window_base + window)
    seed, choice = tl.load(seeds + begin), tl.load(choices + begin)
    position = tl.load(positions + begin)
    heat = tl.load(heat_row + begin)
    cold = heat == 0.0
    heat = tl.maximum(heat, COLDEST)
    kept = tested * 0
    scale = tl.full((), 1.0, tl.float64)
    joint = tl.full((), 1.0, tl.float64)
    usable = tested * 0  # guesses up to the first row that is not numbers
    going = tested >= 0
    earlier = tl.full((), 1.0, tl.float64)
    for index in range(tested):
        row = begin + index
        if RULE == CURVE:
            x = tl.load(logits + row * width + tl.load(guess_token + guess + index))
            thrown = coin(seed, position + index, choice, ACCEPT, base)
            going = going & (thrown < tl.load(curve + index)) & (x > NEVER)
            kept += going.to(tl.int32)
            usable += 1
        else:
            going = going & (tl.load(row_state + row) == 0)
            if going:
                usable += 1
                total = tl.load(row_total + row)
                id_k, share_k, weight_k = law_of(
                    logits, law_id, law_share, row_top, row_depth, row, guess + index,
                    heat, width, LAW,
                )  # fmt: skip
                own = id_k == tl.load(guess_token + guess + index)
                p = tl.sum(tl.where(own, weight_k, 0.0), 0) / total
                q = tl.load(guess_share + guess + index)
                if RULE == BLOCKS:
                    if index > 0:
                        others = tl.maximum(total - tl.sum(weight_k, 0), 0.0) / total
                        more_k = tl.maximum(joint * weight_k / total - share_k, 0.0)
                        left = joint * others + tl.sum(more_k, 0)
                        missing = 1.0 - joint
                        none = (left == 0.0) & (missing == 0.0)
                        chance = tl.where(none, 1.0, left / tl.where(none, 1.0, left + missing))
                        if earlier < chance:
                            kept = index + kept * 0
                            scale = joint
                    joint = joined(joint, p, q)
                    earlier = coin(seed, position + index, choice, ACCEPT, base)
                else:
                    thrown = coin(seed, position + index, choice, ACCEPT, base)
                    if RULE == RATIO:
                        falls = thrown * q < p
                    else:
                        falls = (thrown * accumulated < p) | (p >= single)
                    going = going & falls
                    kept += falls.to(tl.int32)
    if RULE == BLOCKS:
        if (usable > 0) & (earlier < joint):
            kept = usable
            scale = joint
    token = kept * 0 - 1
    state = kept * 0
    if kept < draws:
        row = begin + kept
        state = tl.load(row_state + row)
        if state == 0:
            drawing = coin(seed, position + kept, choice, FINAL, base)
            against = tl.where(kept < tested, guess + kept, -1)
            token = rest_of(
                logits, law_id, law_share, chunk_top, chunk_best, chunk_sum, row_top, row_depth,
                row_total, row, against, scale, drawing, heat, cold, chunks, width,
                BLOCK, CHUNKS, LAW, RULE == CURVE,
            )  # fmt: skip
    tl.store(kept_out + window, kept)
    tl.store(token_out + window, token)
    tl.store(state_out + window, state)
