"""Does SAC still solve Pendulum-v1 with each piece for stability switched on? That none of them breaks learning, and
nothing more: what they bring shows on harder tasks.

    python benchmarks/stability_pieces.py [--pieces plain,critic-norm,observation-norm,reward-scale] [--seeds 0,1]

As two_devices_learning.py trains: in one process, so that a seed gives the same on a busy machine.
"""

from __future__ import annotations

import argparse

from two_devices_learning import CONFIG, prepare, train

PIECES = {
    "plain": {},
    "critic-norm": {"critic_norm": "layer"},
    "observation-norm": {"observation_norm": "on"},
    "reward-scale": {"reward_scale": 0.1},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", default=",".join(PIECES))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--steps", type=int, default=15_000)
    options = parser.parse_args()
    prepare()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print("| piece | " + " | ".join(f"seed {seed}" for seed in seeds) + " |")
    print("|---" * (len(seeds) + 1) + "|")
    for piece in options.pieces.split(","):
        returns = [train("one", seed, options.steps, CONFIG.replace(**PIECES[piece])) for seed in seeds]
        print(f"| {piece} | " + " | ".join(f"{value:.0f}" for value in returns) + " |", flush=True)


if __name__ == "__main__":
    main()
