"""Triton kernels that sum the weights' gradients over the rows, and the optimiser step that takes them.

The rows are cut into splits; each split writes its own sum `partial[split]` (in the order of the flat vector), and the
optimiser adds them up: no atomics, so the same rows give the same bits.

A program of the gradient kernels computes one block of one weight matrix: a product over rows of a left factor, whole,
and BLOCK_COLS columns of a right factor. First layers are computed transposed, (H1, columns of the input), with a
column of ones behind the input that makes the bias.
"""

# The parameters of a kernel are pointers, numbers and constants of Triton: they have no Python types.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def critic_errors(
    reward, discount, stride, next_q, next_log_prob, log_temperature, q, dq, sums, B, loss_scale,
    ENTROPY: tl.constexpr, Q: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dloss/dq = loss_scale (q - target), for a block of rows. `sums` (2, blocks): of squared errors and of q."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = rows < B
    soft_value = tl.load(next_q + rows, live, other=0.0)
    if Q == 2:
        soft_value = tl.minimum(soft_value, tl.load(next_q + B + rows, live, other=0.0))
    if ENTROPY:
        soft_value -= tl.exp(tl.load(log_temperature)) * tl.load(next_log_prob + rows, live, other=0.0)
    target = tl.load(reward + rows * stride, live, other=0.0)
    target += tl.load(discount + rows * stride, live, other=0.0) * soft_value
    square = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for critic in tl.static_range(Q):
        values = tl.load(q + critic * B + rows, live, other=0.0)
        error = values - target
        tl.store(dq + critic * B + rows, error * loss_scale, live)
        square += error * error
        total += values
    tl.store(sums + tl.program_id(0), tl.sum(square, 0))
    tl.store(sums + tl.num_programs(0) + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def critic_gradients(
    obs_action, stride, dq_in, h1_in, mask_in, e2_in, h2_in, g1_in, packed, flat, partial, B,
    SPLIT_ROWS: tl.constexpr, NORM: tl.constexpr, Q: tl.constexpr, INPUTS: tl.constexpr, W2_START: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr, INPUT_COLS: tl.constexpr,
):  # fmt: skip
    """Programs (block, critic, split): blocks of W2 with what follows it, then blocks of W1. With NORM what follows
    has programs of its own between them, since it is summed from tiles that W2's products read: see actor_gradients."""
    block = tl.program_id(0)
    critic = tl.program_id(1)
    split = tl.program_id(2)
    count: tl.constexpr = Q * ((INPUTS + 1) * H1 + (H1 + 1) * H2 + H2 + 1)
    second_blocks: tl.constexpr = H2 // BLOCK_COLS
    b1_start: tl.constexpr = Q * INPUTS * H1
    w2_start: tl.constexpr = b1_start + Q * H1
    b2_start: tl.constexpr = w2_start + Q * H1 * H2
    w3_start: tl.constexpr = b2_start + Q * H2
    first = split * SPLIT_ROWS
    hidden = tl.arange(0, H1)
    partial += split * count
    offset = critic.to(tl.int64) * B
    dq_in += offset
    h1_in += offset * H1
    if NORM:
        e2_in += offset * H2
        h2_in += offset * H2
    else:
        mask_in += offset * H2
    g1_in += offset * H1
    input_start: tl.constexpr = 2 * second_blocks if NORM else second_blocks

    if NORM and block < second_blocks:
        column = block * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
        total = tl.zeros((H1, BLOCK_COLS), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            dq = tl.load(dq_in + rows, live, other=0.0)
            e2 = tl.load(e2_in + rows[:, None] * H2 + column[None, :], live[:, None], other=0.0)
            h1 = tl.load(h1_in + rows[:, None] * H1 + hidden[None, :], live[:, None], other=0.0)
            total = tl.dot(tl.trans(h1), (e2 * dq[:, None]).to(h1.dtype), total)
        tl.store(partial + w2_start + critic * H1 * H2 + hidden[:, None] * H2 + column[None, :], total)
    elif NORM and block < 2 * second_blocks:
        column = (block - second_blocks) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
        of_e2 = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)
        of_h2 = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)
        of_dq = tl.zeros((BLOCK_ROWS,), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            dq = tl.load(dq_in + rows, live, other=0.0)
            at_h2 = rows[:, None] * H2 + column[None, :]
            of_e2 += tl.load(e2_in + at_h2, live[:, None], other=0.0) * dq[:, None]
            of_h2 += tl.load(h2_in + at_h2, live[:, None], other=0.0) * dq[:, None]
            of_dq += dq
        tl.store(partial + b2_start + critic * H2 + column, tl.sum(of_e2, 0))
        tl.store(partial + w3_start + critic * H2 + column, tl.sum(of_h2, 0))
        if block == second_blocks:
            tl.store(partial + w3_start + Q * H2 + critic, tl.sum(of_dq, 0))
    elif block < second_blocks:
        column = block * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
        total = tl.zeros((H1, BLOCK_COLS), tl.float32)
        # summed over the rows only once at the end: a sum over a tile makes all warps wait for each other
        of_mask = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)
        of_dq = tl.zeros((BLOCK_ROWS,), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            dq = tl.load(dq_in + rows, live, other=0.0)
            mask = tl.load(mask_in + rows[:, None] * H2 + column[None, :], live[:, None], other=0)
            masked = tl.where(mask != 0, dq[:, None], 0.0)
            of_dq += dq
            of_mask += masked
            h1 = tl.load(h1_in + rows[:, None] * H1 + hidden[None, :], live[:, None], other=0.0)
            total = tl.dot(tl.trans(h1), masked.to(h1.dtype), total)
        bias = tl.sum(of_mask, 0)
        weights = packed + critic * (W2_START + H1 * H2 + H2) + W2_START
        place = hidden[:, None] * H2 + column[None, :]
        last = tl.load(weights + H1 * H2 + column).to(tl.float32)
        second = tl.load(weights + place).to(tl.float32)
        b2 = tl.load(flat + b2_start + critic * H2 + column)
        tl.store(partial + w2_start + critic * H1 * H2 + place, total * last[None, :])
        tl.store(partial + b2_start + critic * H2 + column, bias * last)
        tl.store(partial + w3_start + critic * H2 + column, tl.sum(total * second, 0) + b2 * bias)
        if block == 0:
            tl.store(partial + w3_start + Q * H2 + critic, tl.sum(of_dq, 0))
    else:
        input_column = (block - input_start) * INPUT_COLS + tl.arange(0, INPUT_COLS)
        transposed = tl.zeros((H1, INPUT_COLS), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            dq = tl.load(dq_in + rows, live, other=0.0)
            x = tl.load(
                obs_action + rows[:, None] * stride + input_column[None, :],
                live[:, None] & (input_column < INPUTS)[None, :], other=0.0,
            )  # fmt: skip
            x = tl.where((input_column == INPUTS)[None, :], 1.0, x) * dq[:, None]
            g1 = tl.load(g1_in + rows[:, None] * H1 + hidden[None, :], live[:, None], other=0.0)
            transposed = tl.dot(tl.trans(g1), x.to(g1.dtype), transposed)
        store_first_layer(partial, transposed, input_column, critic, hidden, Q, INPUTS, H1)


@triton.jit
def store_first_layer(partial, transposed, column, copy, hidden, COPIES: tl.constexpr, INPUTS: tl.constexpr,
                      H1: tl.constexpr):  # fmt: skip
    """transposed (H1, columns): the weights' gradients, and the bias' in column INPUTS."""
    place = tl.where(column < INPUTS, copy * INPUTS * H1 + column * H1, COPIES * INPUTS * H1 + copy * H1)
    tl.store(partial + place[:, None] + hidden[None, :], tl.trans(transposed), (column <= INPUTS)[:, None])


@triton.jit
def actor_gradients(
    obs, stride, h1_in, h2_in, grad_output, grad_h2, grad_h1, partial, B,
    SPLIT_ROWS: tl.constexpr, HEADS: tl.constexpr, OBS: tl.constexpr, A: tl.constexpr, ACTION_PAD: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr, INPUT_COLS: tl.constexpr,
):  # fmt: skip
    """Programs (block, split): blocks of W2, then W3, then b2 and b3, then blocks of W1.

    The biases have a program of their own because no tile may go both into a product and into a sum: Triton 3.6 keeps
    one buffer for such a tile and lets the next load overwrite it while the product still reads it.
    """
    block = tl.program_id(0)
    split = tl.program_id(1)
    outputs: tl.constexpr = HEADS * A
    width: tl.constexpr = HEADS * ACTION_PAD
    count: tl.constexpr = (OBS + 1) * H1 + (H1 + 1) * H2 + (H2 + 1) * outputs
    second_blocks: tl.constexpr = H2 // BLOCK_COLS
    w2_start: tl.constexpr = (OBS + 1) * H1
    b2_start: tl.constexpr = w2_start + H1 * H2
    w3_start: tl.constexpr = b2_start + H2
    b3_start: tl.constexpr = w3_start + H2 * outputs
    first = split * SPLIT_ROWS
    hidden = tl.arange(0, H1)
    partial += split * count

    if block < second_blocks:
        column = block * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
        total = tl.zeros((H1, BLOCK_COLS), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            grad = tl.load(grad_h2 + rows[:, None] * H2 + column[None, :], live[:, None], other=0.0)
            h1 = tl.load(h1_in + rows[:, None] * H1 + hidden[None, :], live[:, None], other=0.0)
            total = tl.dot(tl.trans(h1), grad, total)
        tl.store(partial + w2_start + hidden[:, None] * H2 + column[None, :], total)
    elif block == second_blocks:
        second = tl.arange(0, H2)
        out = tl.arange(0, width)
        head = out // ACTION_PAD
        act = out % ACTION_PAD
        total = tl.zeros((H2, width), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            grad = tl.load(grad_output + rows[:, None] * width + out[None, :], live[:, None], other=0.0)
            h2 = tl.load(h2_in + rows[:, None] * H2 + second[None, :], live[:, None], other=0.0)
            total = tl.dot(tl.trans(h2), grad, total)
        place = w3_start + second[:, None] * outputs + (head * A + act)[None, :]
        tl.store(partial + place, total, (act < A)[None, :])
    elif block == second_blocks + 1:
        unit = tl.arange(0, H2)
        output = tl.arange(0, width)
        bias2 = tl.zeros((H2,), tl.float32)
        bias3 = tl.zeros((width,), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            second_grad = tl.load(grad_h2 + rows[:, None] * H2 + unit[None, :], live[:, None], other=0.0)
            third_grad = tl.load(grad_output + rows[:, None] * width + output[None, :], live[:, None], other=0.0)
            bias2 += tl.sum(second_grad.to(tl.float32), 0)
            bias3 += tl.sum(third_grad.to(tl.float32), 0)
        tl.store(partial + b2_start + unit, bias2)
        place3 = b3_start + (output // ACTION_PAD) * A + output % ACTION_PAD
        tl.store(partial + place3, bias3, output % ACTION_PAD < A)
    else:
        input_column = (block - second_blocks - 2) * INPUT_COLS + tl.arange(0, INPUT_COLS)
        transposed = tl.zeros((H1, INPUT_COLS), tl.float32)
        for start in range(0, SPLIT_ROWS, BLOCK_ROWS):
            rows = first + start + tl.arange(0, BLOCK_ROWS)
            live = rows < B
            x = tl.load(
                obs + rows[:, None] * stride + input_column[None, :],
                live[:, None] & (input_column < OBS)[None, :],
                other=0.0,
            )
            x = tl.where((input_column == OBS)[None, :], 1.0, x)
            grad = tl.load(grad_h1 + rows[:, None] * H1 + hidden[None, :], live[:, None], other=0.0)
            transposed = tl.dot(tl.trans(grad), x.to(grad.dtype), transposed)
        store_first_layer(partial, transposed, input_column, 0, hidden, 1, OBS, H1)


@triton.jit
def adam(data, gradient, first_moment, second_moment, where, there, t, lr):
    """One step; what was there is overwritten and the new values are returned."""
    # log of 0.9 and of 0.999
    correction1 = 1.0 - tl.exp(t * -0.10536051565782628)
    correction2 = 1.0 - tl.exp(t * -0.0010005003335835335)
    m = tl.load(first_moment + where, there, other=0.0)
    v = tl.load(second_moment + where, there, other=0.0)
    m += 0.1 * (gradient - m)
    v = 0.999 * v + 0.001 * gradient * gradient
    value = tl.load(data + where, there, other=0.0)
    value -= (lr / correction1) * m / (tl.sqrt(v) / tl.sqrt(correction2) + 1e-8)
    tl.store(first_moment + where, m, there)
    tl.store(second_moment + where, v, there)
    tl.store(data + where, value, there)
    return value


@triton.jit
def optimise(
    data, first_moment, second_moment, steps, partial, lr, target, tau, packed, packed_target,
    SPLITS: tl.constexpr, TRACKED: tl.constexpr,
    COPIES: tl.constexpr, OBS: tl.constexpr, INPUTS: tl.constexpr, OBS_PAD: tl.constexpr, INPUT_PAD: tl.constexpr,
    H1: tl.constexpr, H2: tl.constexpr, OUTPUTS: tl.constexpr, A: tl.constexpr, ACTION_PAD: tl.constexpr,
    OUTPUT_PAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adam on the sum of the partial gradients, the target's average if one is TRACKED, and the packed copies of both.
    Output j of an actor lies in packed column (j // A) * ACTION_PAD + j % A."""
    b1: tl.constexpr = COPIES * INPUTS * H1
    w2: tl.constexpr = b1 + COPIES * H1
    b2: tl.constexpr = w2 + COPIES * H1 * H2
    w3: tl.constexpr = b2 + COPIES * H2
    b3: tl.constexpr = w3 + COPIES * H2 * OUTPUTS
    count: tl.constexpr = b3 + COPIES * OUTPUTS
    packed_size: tl.constexpr = INPUT_PAD * H1 + H1 * H2 + H2 * OUTPUT_PAD

    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = where < count
    gradient = tl.zeros((BLOCK,), tl.float32)
    for split in range(SPLITS):
        gradient += tl.load(partial + split * count + where, there, other=0.0)
    value = adam(data, gradient, first_moment, second_moment, where, there, tl.load(steps), lr)

    row = (where % (INPUTS * H1)) // H1
    at_w1 = (where // (INPUTS * H1)) * packed_size + tl.where(row < OBS, row, row - OBS + OBS_PAD) * H1 + where % H1
    second = where - w2
    at_w2 = (second // (H1 * H2)) * packed_size + INPUT_PAD * H1 + second % (H1 * H2)
    third = where - w3
    output = third % OUTPUTS
    at_w3 = (third // (H2 * OUTPUTS)) * packed_size + INPUT_PAD * H1 + H1 * H2
    at_w3 += ((third % (H2 * OUTPUTS)) // OUTPUTS) * OUTPUT_PAD + (output // A) * ACTION_PAD + output % A
    is_w1 = where < b1
    is_w2 = (where >= w2) & (where < b2)
    is_w3 = (where >= w3) & (where < b3)
    at = tl.where(is_w1, at_w1, tl.where(is_w2, at_w2, at_w3))
    is_weight = is_w1 | is_w2 | is_w3
    tl.store(packed + at, value.to(packed.dtype.element_ty), is_weight)
    if TRACKED:
        average = tl.load(target + where, there, other=0.0)
        average += tau * (value - average)
        tl.store(target + where, average, there)
        tl.store(packed_target + at, average.to(packed.dtype.element_ty), is_weight)


@triton.jit
def finish_critics(critic_sums, critic_loss, q_mean, B, BLOCKS: tl.constexpr, Q: tl.constexpr, BLOCK: tl.constexpr):
    entry = tl.arange(0, BLOCK)
    square = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, BLOCKS, BLOCK):
        there = start + entry < BLOCKS
        square += tl.load(critic_sums + start + entry, there, other=0.0)
        total += tl.load(critic_sums + BLOCKS + start + entry, there, other=0.0)
    tl.store(critic_loss, tl.sum(square, 0) / (B * Q))
    tl.store(q_mean, tl.sum(total, 0) / (B * Q))


@triton.jit
def finish(
    critic_sums, actor_sums, critic_loss, q_mean, actor_loss, temperature_metric, entropy,
    log_temperature, first_moment, second_moment, steps, lr, target_entropy, B,
    BLOCKS: tl.constexpr, Q: tl.constexpr, TILES: tl.constexpr, ACTOR: tl.constexpr, GAUSSIAN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The metrics and, of a stochastic policy, the temperature's step: its loss = -log temperature (mean log pi +
    target entropy)."""
    finish_critics(critic_sums, critic_loss, q_mean, B, BLOCKS, Q, BLOCK)
    if ACTOR:
        entry = tl.arange(0, BLOCK)
        total_q = tl.zeros((BLOCK,), tl.float32)
        total_log_prob = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, TILES, BLOCK):
            there = start + entry < TILES
            total_q += tl.load(actor_sums + start + entry, there, other=0.0)
            if GAUSSIAN:
                total_log_prob += tl.load(actor_sums + TILES + start + entry, there, other=0.0)
        q = tl.sum(total_q, 0) / B
        if GAUSSIAN:
            log_prob = tl.sum(total_log_prob, 0) / B
            temperature = tl.exp(tl.load(log_temperature))
            one = tl.arange(0, 1)
            gradient = tl.zeros((1,), tl.float32) - target_entropy - log_prob
            adam(log_temperature, gradient, first_moment, second_moment, one, one < 1, tl.load(steps), lr)
            tl.store(actor_loss, temperature * log_prob - q)
            tl.store(temperature_metric, temperature)
            tl.store(entropy, -log_prob)
        else:
            tl.store(actor_loss, -q)
