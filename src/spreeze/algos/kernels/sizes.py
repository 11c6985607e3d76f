"""How the kernels cut up a batch, and the padded sizes of what they multiply."""

from __future__ import annotations

from typing import NamedTuple


def power_of_two(number: int, least: int = 16) -> int:
    """The next one from `number` on; products have sides of at least 16."""
    return max(least, 1 << (number - 1).bit_length())


class Tile(NamedTuple):
    rows: int
    cols: int
    warps: int
    stages: int  # loads of a loop that are under way at once


class Cut(NamedTuple):
    """How the passes and the gradients of one batch size are cut into programs."""

    actor: Tile
    critic: Tile
    target: Tile
    backward: Tile
    critic_gradients: Tile
    actor_gradients: Tile
    critic_splits: int
    actor_splits: int

    def fitted(self, hidden1: int, hidden2: int) -> Cut:
        """No tile wider than the second layer, and fewer warps where both are narrow."""
        narrow = hidden1 * hidden2 <= 64 * 64

        def fit(tile: Tile) -> Tile:
            return tile._replace(cols=min(tile.cols, hidden2), warps=4 if narrow else tile.warps)

        return self._replace(
            actor=fit(self.actor),
            critic=fit(self.critic),
            target=fit(self.target),
            backward=fit(self.backward),
            critic_gradients=fit(self.critic_gradients),
            actor_gradients=fit(self.actor_gradients),
        )


# Measured on an H200 with 256-256 networks, obs 17, act 6. Few rows: small tiles keep more of the GPU busy, and a
# program's time is that of reading the weights once. Many rows: 64 fill the tensor cores, two programs fit on a
# multiprocessor with two stages, and gradients have to be cut finely, since each program waits for memory most.
_SMALL = Cut(
    actor=Tile(16, 64, 4, 3), critic=Tile(16, 64, 4, 3), target=Tile(16, 64, 4, 3), backward=Tile(16, 64, 4, 3),
    critic_gradients=Tile(64, 32, 4, 3), actor_gradients=Tile(64, 32, 4, 3), critic_splits=8, actor_splits=8,
)  # fmt: skip
_MIDDLE = Cut(
    actor=Tile(64, 64, 4, 2), critic=Tile(64, 64, 4, 2), target=Tile(64, 64, 4, 3), backward=Tile(64, 64, 4, 2),
    critic_gradients=Tile(64, 32, 4, 2), actor_gradients=Tile(128, 64, 8, 2), critic_splits=13, actor_splits=26,
)  # fmt: skip
_LARGE = _MIDDLE._replace(actor_gradients=Tile(32, 64, 8, 4), critic_splits=52, actor_splits=52)


# Critics with layer norm, measured likewise (docs/measuring.md).
# Many rows: a whole row of z2 wants 8 warps; all of W2 is kept, 128 KB, and one program fits on a multiprocessor.
_SMALL_NORM = Tile(16, 64, 4, 3)
_MANY_NORM = Tile(64, 256, 8, 2)


def cut_for(batch_size: int, hidden1: int, hidden2: int, norm: bool = False) -> Cut:
    """`norm`: of critics with layer norm."""
    cut = _SMALL if batch_size <= 2048 else _MIDDLE if batch_size <= 16384 else _LARGE
    if norm:
        tile = _SMALL_NORM if cut is _SMALL else _MANY_NORM
        cut = cut._replace(critic=tile, target=tile)
    return cut.fitted(hidden1, hidden2)


def split_rows(batch_size: int, splits: int, tile: Tile) -> int:
    """Rows a split so that there are at most `splits`, in whole tiles."""
    return -(-batch_size // (splits * tile.rows)) * tile.rows


class Shape(NamedTuple):
    """The sizes of the networks, and the padded ones that products are computed with."""

    obs: int
    action: int
    hidden1: int
    hidden2: int

    @property
    def obs_pad(self) -> int:
        return power_of_two(self.obs) if self.obs <= 64 else -(-self.obs // 64) * 64

    @property
    def obs_step(self) -> int:
        return min(64, self.obs_pad)

    @property
    def action_pad(self) -> int:
        return power_of_two(self.action)

    def input_cols(self, inputs: int) -> int:
        """Columns of a first layer's input, with one of ones behind them, that a program takes."""
        return min(64, power_of_two(inputs + 1))
