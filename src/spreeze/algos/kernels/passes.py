"""Triton kernels over rows: a tile of rows goes through a network, and back, without its activations leaving the chip
other than for the weights' gradients.

One program holds BLOCK_ROWS rows. The first hidden layer h1 (rows, H1) stays in registers, the second one is computed
BLOCK_COLS columns at a time and used at once, so that of W2 only a slice is in shared memory.

Critics have one output, so with w3 (H2,) as last weights, mask = (h2 > 0) and dq = dloss/dq of a row,

    dloss/dh1 = dq * ((w3 * mask) @ W2^T) * (h1 > 0) = dq * g1        dloss/dW2 = (h1^T @ (dq * mask)) * w3
    dloss/dW3 = h2^T @ dq = sum_i W2_i (h1^T @ (dq * mask))_i + b2 * (dq^T @ mask)

g1 needs no target: forward and backward are one pass over W2, and dq joins when gradients are summed (gradients.py).

With layer norm (NORM) h = relu(n), n = (z - mean(z)) / std, and per unit of dq

    d2 = w3 * (n2 > 0)                       e2 = dq/dz2 = (d2 - mean(d2) - n2 * mean(d2 * n2)) / std2
    d1 = (e2 @ W2^T) * (n1 > 0)              g1 = dq/dz1 = (d1 - mean(d1) - n1 * mean(d1 * n1)) / std1
    dloss/dW2 = h1^T @ (dq * e2)             dloss/dW3 = h2^T @ dq

The means need whole rows of z2, so W2 goes by in slices of BLOCK_COLS rows on the way there, of as many columns on the
way back; with BLOCK_COLS = H2 it is read once and kept.

B rows; OBS, A, OBS_PAD and ACTION_PAD are the sizes of observation and action, and the padded ones. `packed` is one
network's weights in the products' type, | W1 (OBS_PAD, H1) | W2 (H1, H2) | W3 (H2, heads * ACTION_PAD) | of an actor
and | W1 (OBS_PAD + ACTION_PAD, H1) | W2 (H1, H2) | W3 (H2,) | of a critic.
"""

# The parameters of a kernel are pointers, numbers and constants of Triton: they have no Python types.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from spreeze.algos import layer_norm
from spreeze.weights import numpy_policy

# what a critic pass is for
TARGET_VALUES = tl.constexpr(0)  # q
TRAINING = tl.constexpr(1)  # q, h1, g1, and mask or, with layer norm, e2 and h2
ADVICE = tl.constexpr(2)  # q, dq/daction

LOG_STD_MIN = tl.constexpr(numpy_policy.LOG_STD_MIN)
LOG_STD_MAX = tl.constexpr(numpy_policy.LOG_STD_MAX)
EPSILON = tl.constexpr(layer_norm.EPSILON)


@triton.jit
def tanh(x):
    # by the exponential of a number that is not positive: no overflow
    e = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0, -size, size)


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def first_layer(
    obs, stride, rows, live, packed,
    OBS: tl.constexpr, OBS_PAD: tl.constexpr, OBS_STEP: tl.constexpr, H1: tl.constexpr, BLOCK_ROWS: tl.constexpr,
):  # fmt: skip
    """obs @ W1 (BLOCK_ROWS, H1), before the bias."""
    hidden = tl.arange(0, H1)
    step = tl.arange(0, OBS_STEP)
    total = tl.zeros((BLOCK_ROWS, H1), tl.float32)
    for start in range(0, OBS_PAD, OBS_STEP):
        column = start + step
        x = tl.load(obs + rows[:, None] * stride + column[None, :], live[:, None] & (column < OBS)[None, :], other=0.0)
        weight = tl.load(packed + column[:, None] * H1 + hidden[None, :])
        total = tl.dot(x.to(weight.dtype), weight, total)
    return total


@triton.jit
def normalize(z, H: tl.constexpr):
    """Layer norm n of z (rows, H), and 1 / std (rows,)."""
    centred = z - (tl.sum(z, 1) / H)[:, None]
    inverse_std = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / H + EPSILON)
    return centred * inverse_std[:, None], inverse_std


@triton.jit
def normalize_backward(d, n, d_dot_n, inverse_std, H: tl.constexpr):
    """d = dloss/dn (rows, H) -> dloss/dz; d_dot_n (rows,): the sums of d n over the units."""
    return inverse_std[:, None] * (d - (tl.sum(d, 1) / H)[:, None] - n * (d_dot_n / H)[:, None])


@triton.jit
def actor_forward(
    obs, next_obs, stride, noise, packed, next_packed, flat, next_flat,
    action, next_action, log_prob, next_log_prob, raw_log_std, h1_out, h2_out, B, noise_clip,
    steps0, steps1, steps2, COUNTERS: tl.constexpr, FIRST: tl.constexpr, GAUSSIAN: tl.constexpr, SMOOTHED: tl.constexpr,
    OBS: tl.constexpr, A: tl.constexpr, OBS_PAD: tl.constexpr, OBS_STEP: tl.constexpr, ACTION_PAD: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Programs (tile, 0): actions for obs, and what the backward pass needs; (tile, 1): actions for next_obs. FIRST = 1
    leaves the former out. The optimisers' counters go up here, because all programs of their own launches read them."""
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(steps0, tl.load(steps0) + 1.0)
        if COUNTERS > 1:
            tl.store(steps1, tl.load(steps1) + 1.0)
        if COUNTERS > 2:
            tl.store(steps2, tl.load(steps2) + 1.0)
    for_next = tl.program_id(1) + FIRST == 1
    heads: tl.constexpr = 2 if GAUSSIAN else 1
    outputs: tl.constexpr = heads * A
    width: tl.constexpr = heads * ACTION_PAD
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live = rows < B
    if for_next:
        obs = next_obs
        packed = next_packed
        flat = next_flat
    hidden = tl.arange(0, H1)
    act = tl.arange(0, ACTION_PAD)
    b1 = flat + OBS * H1
    w2 = packed + OBS_PAD * H1
    b2 = b1 + H1 + H1 * H2
    w3 = w2 + H1 * H2
    b3 = b2 + H2 + H2 * outputs

    z1 = first_layer(obs, stride, rows, live, packed, OBS, OBS_PAD, OBS_STEP, H1, BLOCK_ROWS)
    h1 = tl.maximum(z1 + tl.load(b1 + hidden)[None, :], 0.0).to(packed.dtype.element_ty)
    if not for_next:
        tl.store(h1_out + rows[:, None] * H1 + hidden[None, :], h1, live[:, None])
    mean = tl.zeros((BLOCK_ROWS, ACTION_PAD), tl.float32)
    log_std = tl.zeros((BLOCK_ROWS, ACTION_PAD), tl.float32)
    for start in range(0, H2, BLOCK_COLS):
        column = start + tl.arange(0, BLOCK_COLS)
        weight = tl.load(w2 + hidden[:, None] * H2 + column[None, :])
        z2 = tl.dot(h1, weight) + tl.load(b2 + column)[None, :]
        h2 = tl.maximum(z2, 0.0).to(packed.dtype.element_ty)
        if not for_next:
            tl.store(h2_out + rows[:, None] * H2 + column[None, :], h2, live[:, None])
        last = w3 + column[:, None] * width + act[None, :]
        mean = tl.dot(h2, tl.load(last), mean)
        if GAUSSIAN:
            log_std = tl.dot(h2, tl.load(last + ACTION_PAD), log_std)

    real = act < A
    where = rows[:, None] * A + act[None, :]
    there = live[:, None] & real[None, :]
    mean += tl.load(b3 + act, real, other=0.0)[None, :]
    if GAUSSIAN:
        log_std += tl.load(b3 + A + act, real, other=0.0)[None, :]
        if for_next:
            noise += B * A
        e = tl.load(noise + where, there, other=0.0)
        clamped = tl.minimum(tl.maximum(log_std, LOG_STD_MIN), LOG_STD_MAX)
        u = mean + tl.exp(clamped) * e
        a = tanh(u)
        # log N(u) - log(1 - tanh(u)^2), with log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)); the constant is
        # -(log(2 pi) / 2 + 2 log 2)
        each = 2.0 * (u + softplus(-2.0 * u)) - clamped - 0.5 * e * e - 2.3052328943245633
        total = tl.sum(tl.where(real[None, :], each, 0.0), 1)
        if for_next:
            tl.store(next_action + where, a, there)
            tl.store(next_log_prob + rows, total, live)
        else:
            tl.store(action + where, a, there)
            tl.store(log_prob + rows, total, live)
            tl.store(raw_log_std + where, log_std, there)
    else:
        a = tanh(mean)
        if for_next:
            if SMOOTHED:
                e = tl.load(noise + where, there, other=0.0)
                a += tl.minimum(tl.maximum(e, -noise_clip), noise_clip)
                a = tl.minimum(tl.maximum(a, -1.0), 1.0)
            tl.store(next_action + where, a, there)
        else:
            tl.store(action + where, a, there)


@triton.jit
def critic_pass(
    obs, stride, action, action_stride, packed, flat, q_out, h1_out, mask_out, e2_out, h2_out, g1_out, dq_daction, B,
    PURPOSE: tl.constexpr, NORM: tl.constexpr, Q: tl.constexpr,
    OBS: tl.constexpr, A: tl.constexpr, OBS_PAD: tl.constexpr, OBS_STEP: tl.constexpr, ACTION_PAD: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Programs (tile, critic). `flat` holds Q networks, `packed` one after the other. With NORM what goes from product
    to product is left in h1_out, e2_out and g1_out, whatever the PURPOSE."""
    critic = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live = rows < B
    hidden = tl.arange(0, H1)
    act = tl.arange(0, ACTION_PAD)
    w1_action = OBS_PAD * H1
    w2_start = (OBS_PAD + ACTION_PAD) * H1
    packed += critic * (w2_start + H1 * H2 + H2)
    w2 = packed + w2_start
    w3 = w2 + H1 * H2
    after_w1 = flat + Q * (OBS + A) * H1
    b1 = after_w1 + critic * H1
    b2 = after_w1 + Q * H1 + Q * H1 * H2 + critic * H2
    b3 = after_w1 + Q * H1 + Q * H1 * H2 + Q * H2 + Q * H2 + critic

    z1 = first_layer(obs, stride, rows, live, packed, OBS, OBS_PAD, OBS_STEP, H1, BLOCK_ROWS)
    a = tl.load(action + rows[:, None] * action_stride + act[None, :], live[:, None] & (act < A)[None, :], other=0.0)
    w_action = tl.load(packed + w1_action + act[:, None] * H1 + hidden[None, :])
    if NORM:
        by_row = critic.to(tl.int64) * B + rows
        at_h1 = by_row[:, None] * H1 + hidden[None, :]
        # Nothing goes through registers from one product into another one, its sums included: Triton 3.6 gives all
        # warps of such a chain rows, and of 8 warps over 64 rows half would repeat what the others compute.
        z1 += tl.load(b1 + hidden)[None, :]
        z1 += tl.where(live[:, None], tl.dot(a.to(w_action.dtype), w_action), 0.0)
        n1, inverse_std1 = normalize(z1, H1)
        tl.store(h1_out + at_h1, tl.maximum(n1, 0.0).to(w_action.dtype), live[:, None])
        tl.debug_barrier()

        unit = tl.arange(0, H2)
        at_h2 = by_row[:, None] * H2 + unit[None, :]
        held: tl.constexpr = BLOCK_COLS == H2
        if held:
            weight = tl.load(w2 + hidden[:, None] * H2 + unit[None, :])
            z2 = tl.dot(tl.load(h1_out + at_h1, live[:, None], other=0.0), weight)
        else:
            z2 = tl.zeros((BLOCK_ROWS, H2), tl.float32)
            step: tl.constexpr = min(BLOCK_COLS, H1)
            for start in range(0, H1, step):
                part = start + tl.arange(0, step)
                h1 = tl.load(h1_out + by_row[:, None] * H1 + part[None, :], live[:, None], other=0.0)
                z2 = tl.dot(h1, tl.load(w2 + part[:, None] * H2 + unit[None, :]), z2)
        n2, inverse_std2 = normalize(z2 + tl.load(b2 + unit)[None, :], H2)
        if PURPOSE == TRAINING:
            tl.store(h2_out + at_h2, tl.maximum(n2, 0.0).to(w_action.dtype), live[:, None])
        last = tl.load(w3 + unit).to(tl.float32)
        q = tl.sum(tl.maximum(n2, 0.0) * last[None, :], 1)
        tl.store(q_out + by_row, q + tl.load(b3), live)

        if PURPOSE != TARGET_VALUES:
            # d2 = w3 (n2 > 0), so the sum of d2 n2 is that of w3 h2: q
            e2 = normalize_backward(tl.where(n2 > 0.0, last[None, :], 0.0), n2, q, inverse_std2, H2)
            tl.store(e2_out + at_h2, e2.to(w_action.dtype), live[:, None])
            tl.debug_barrier()
            if held:
                d1 = tl.dot(tl.load(e2_out + at_h2, live[:, None], other=0.0), tl.trans(weight))
            else:
                d1 = tl.zeros((BLOCK_ROWS, H1), tl.float32)
                for start in range(0, H2, BLOCK_COLS):
                    part = start + tl.arange(0, BLOCK_COLS)
                    e2_part = tl.load(e2_out + by_row[:, None] * H2 + part[None, :], live[:, None], other=0.0)
                    d1 = tl.dot(e2_part, tl.trans(tl.load(w2 + hidden[:, None] * H2 + part[None, :])), d1)
            d1 = tl.where(n1 > 0.0, d1, 0.0)
            g1 = normalize_backward(d1, n1, tl.sum(d1 * n1, 1), inverse_std1, H1)
            tl.store(g1_out + at_h1, g1.to(w_action.dtype), live[:, None])
            if PURPOSE == ADVICE:
                tl.debug_barrier()
                g1 = tl.load(g1_out + at_h1, live[:, None], other=0.0)
                w_action = tl.load(packed + w1_action + act[:, None] * H1 + hidden[None, :])
                grad = tl.dot(g1, tl.trans(w_action))
                tl.store(dq_daction + by_row[:, None] * A + act[None, :], grad, live[:, None] & (act < A)[None, :])
    else:
        z1 = tl.dot(a.to(w_action.dtype), w_action, z1)
        h1 = tl.maximum(z1 + tl.load(b1 + hidden)[None, :], 0.0).to(w_action.dtype)
        by_row = critic.to(tl.int64) * B + rows
        at_h1 = h1_out + by_row[:, None] * H1 + hidden[None, :]
        through_memory: tl.constexpr = PURPOSE != TARGET_VALUES and BLOCK_ROWS * H1 >= 64 * 256
        if PURPOSE == TRAINING or through_memory:
            tl.store(at_h1, h1, live[:, None])
        if through_memory:
            tl.debug_barrier()
            h1 = tl.load(at_h1, live[:, None], other=0.0)

        q = tl.zeros((BLOCK_ROWS,), tl.float32)
        g1 = tl.zeros((BLOCK_ROWS, H1), tl.float32)
        for start in range(0, H2, BLOCK_COLS):
            column = start + tl.arange(0, BLOCK_COLS)
            weight = tl.load(w2 + hidden[:, None] * H2 + column[None, :])
            z2 = tl.dot(h1, weight) + tl.load(b2 + column)[None, :]
            last = tl.load(w3 + column)
            q += tl.sum(tl.maximum(z2, 0.0) * last.to(tl.float32)[None, :], 1)
            if PURPOSE != TARGET_VALUES:
                active = z2 > 0.0
                g1 = tl.dot(tl.where(active, last[None, :], 0.0).to(last.dtype), tl.trans(weight), g1)
                if PURPOSE == TRAINING:
                    tl.store(mask_out + by_row[:, None] * H2 + column[None, :], active.to(tl.int8), live[:, None])
        tl.store(q_out + by_row, q + tl.load(b3), live)

        if PURPOSE != TARGET_VALUES:
            if through_memory:
                tl.debug_barrier()
                h1 = tl.load(at_h1, live[:, None], other=0.0)
            g1 = tl.where(h1 > 0, g1, 0.0).to(h1.dtype)
            if PURPOSE == TRAINING:
                tl.store(g1_out + by_row[:, None] * H1 + hidden[None, :], g1, live[:, None])
            else:
                grad = tl.dot(g1, tl.trans(w_action))
                tl.store(dq_daction + by_row[:, None] * A + act[None, :], grad, live[:, None] & (act < A)[None, :])


@triton.jit
def actor_backward(
    q, dq_daction, action, raw_log_std, noise, log_prob, log_temperature, packed, h1_in, h2_in,
    grad_output, grad_h2, grad_h1, sums, B,
    GAUSSIAN: tl.constexpr, ADVISERS: tl.constexpr, A: tl.constexpr, ACTION_PAD: tl.constexpr, OBS_PAD: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Programs (tile,). `sums` (2, tiles): of the advised values and of the log-probabilities."""
    heads: tl.constexpr = 2 if GAUSSIAN else 1
    width: tl.constexpr = heads * ACTION_PAD
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live = rows < B
    hidden = tl.arange(0, H1)
    act = tl.arange(0, ACTION_PAD)
    there = live[:, None] & (act < A)[None, :]
    where = rows[:, None] * A + act[None, :]

    lowest = tl.load(q + rows, live, other=0.0)
    dq = tl.load(dq_daction + where, there, other=0.0)
    if ADVISERS == 2:
        other = tl.load(q + B + rows, live, other=0.0)
        dq = tl.where((other < lowest)[:, None], tl.load(dq_daction + B * A + where, there, other=0.0), dq)
        lowest = tl.minimum(lowest, other)
    tl.store(sums + tl.program_id(0), tl.sum(lowest, 0))
    a = tl.load(action + where, there, other=0.0)
    grad_mean = dq * (a * a - 1.0) / B
    if GAUSSIAN:
        tl.store(sums + tl.num_programs(0) + tl.program_id(0), tl.sum(tl.load(log_prob + rows, live, other=0.0), 0))
        # da/du = 1 - a^2;  dlog_prob/du = 2a;  dlog_prob/dlog_std = 2a std noise - 1
        share = tl.exp(tl.load(log_temperature)) / B
        grad_mean += 2.0 * a * share
        raw = tl.load(raw_log_std + where, there, other=0.0)
        clamped = tl.minimum(tl.maximum(raw, LOG_STD_MIN), LOG_STD_MAX)
        spread = tl.exp(clamped) * tl.load(noise + where, there, other=0.0)
        grad_log_std = tl.where(there & (raw == clamped), grad_mean * spread - share, 0.0).to(packed.dtype.element_ty)
        tl.store(grad_output + rows[:, None] * width + ACTION_PAD + act[None, :], grad_log_std, live[:, None])
    grad_mean = tl.where(there, grad_mean, 0.0).to(packed.dtype.element_ty)
    tl.store(grad_output + rows[:, None] * width + act[None, :], grad_mean, live[:, None])

    w2 = packed + OBS_PAD * H1
    w3 = w2 + H1 * H2
    total = tl.zeros((BLOCK_ROWS, H1), tl.float32)
    for start in range(0, H2, BLOCK_COLS):
        column = start + tl.arange(0, BLOCK_COLS)
        last = w3 + column[:, None] * width + act[None, :]
        grad = tl.dot(grad_mean, tl.trans(tl.load(last)))
        if GAUSSIAN:
            grad = tl.dot(grad_log_std, tl.trans(tl.load(last + ACTION_PAD)), grad)
        h2 = tl.load(h2_in + rows[:, None] * H2 + column[None, :], live[:, None], other=0.0)
        grad = tl.where(h2 > 0, grad, 0.0).to(h2.dtype)
        tl.store(grad_h2 + rows[:, None] * H2 + column[None, :], grad, live[:, None])
        weight = tl.load(w2 + hidden[:, None] * H2 + column[None, :])
        total = tl.dot(grad, tl.trans(weight), total)
    at_h1 = rows[:, None] * H1 + hidden[None, :]
    h1 = tl.load(h1_in + at_h1, live[:, None], other=0.0)
    tl.store(grad_h1 + at_h1, tl.where(h1 > 0, total, 0.0).to(h1.dtype), live[:, None])
