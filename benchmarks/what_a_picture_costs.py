"""What the live picture costs the training: `spreeze bench run` with and without a visualizer, in turn.

    python benchmarks/what_a_picture_costs.py HalfCheetah-v5 [PAIRS] [flags of train]     a minute and more a pair
    python benchmarks/what_a_picture_costs.py --picture HalfCheetah-v5                    CPU time of a picture

Without and with follow each other, so that what else changes on the machine meets both; the ratio is of a pair, and the
medians are over the pairs. Further flags go to both runs, for example `--seconds 60 --samplers 1`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

FIGURES = ("sample_hz", "update_hz")
PAIRS = 5
PICTURES = 50


def bench_run(env_id: str, visualize: str, flags: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "spreeze", "bench", "run", env_id, "--visualize", visualize, *flags, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["rows"][0]


def compare(env_id: str, pairs: int, flags: list[str]) -> None:
    ratios: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    for pair in range(pairs):
        order = ("off", "web") if pair % 2 == 0 else ("web", "off")
        rows = {visualize: bench_run(env_id, visualize, flags) for visualize in order}
        for figure in FIGURES:
            without, with_picture = rows["off"][figure], rows["web"][figure]
            ratios[figure].append(with_picture / without)
            print(f"pair {pair + 1}  {figure:<10} without {without:12,.1f}   with {with_picture:12,.1f}   "
                  f"ratio {ratios[figure][-1]:.3f}", flush=True)  # fmt: skip
    for figure, values in ratios.items():
        print(f"{figure:<10} with / without: median {statistics.median(values):.3f}, "
              f"{min(values):.3f} to {max(values):.3f} over {len(values)} pairs")  # fmt: skip


def picture(env_id: str) -> None:
    from spreeze.envs.source import EnvSource
    from spreeze.watching.drawing import DrawnEnv, prepare_drawing
    from spreeze.watching.outlets import encode_jpeg

    prepare_drawing()
    for light in (False, True):
        env = DrawnEnv(EnvSource.of(env_id), light)
        env.try_to_draw()
        action, began, cpu = env.env.action_space.sample(), time.monotonic(), time.process_time()
        for _ in range(PICTURES):
            env.step(action)
            drawn = env.picture()
        drawn_ms = [
            1000 * (now - then) / PICTURES for now, then in ((time.process_time(), cpu), (time.monotonic(), began))
        ]
        cpu = time.process_time()
        for _ in range(PICTURES):
            data, _ = encode_jpeg(drawn)
        jpeg_ms = 1000 * (time.process_time() - cpu) / PICTURES
        what = f"{env_id} {'light' if light else 'full '}  {drawn.shape[1]} x {drawn.shape[0]}"
        print(f"{what}: step and picture {drawn_ms[0]:.1f} ms of CPU, {drawn_ms[1]:.1f} ms; "
              f"JPEG {jpeg_ms:.1f} ms of CPU, {len(data):,} bytes")  # fmt: skip
        env.close()


def main(words: list[str]) -> None:
    if words[:1] == ["--picture"] and len(words) == 2:
        picture(words[1])
    elif words and not words[0].startswith("-"):
        pairs = int(words[1]) if words[1:2] and words[1].isdigit() else PAIRS
        compare(words[0], pairs, words[2:] if words[1:2] and words[1].isdigit() else words[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
