"""What the live picture costs the training.

    python benchmarks/what_a_picture_costs.py HalfCheetah-v5 [flags of train]    about two minutes
    python benchmarks/what_a_picture_costs.py --picture HalfCheetah-v5           CPU time of a picture

The first trains once with `--visualize web` and stops (SIGSTOP) its visualizer every other few seconds: with and
without follow each other within one run, so that what else changes on the machine, and in the policy, meets both. A
ratio is of two blocks beside each other; the medians are over the pairs.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FIGURES = ("sample_hz", "update_hz")
WARM_UP_S, BLOCK_S, PAIRS = 8.0, 5.0, 10
SECONDS = 600  # the run ends when everything is measured
PICTURES = 50


class Training:
    def __init__(self, run_dir: Path, env_id: str, flags: list[str]) -> None:
        self._run_dir = run_dir
        command = [sys.executable, "-m", "spreeze", "train", env_id, "--visualize", "web", "--quiet"]
        self._process = subprocess.Popen([*command, "--seconds", str(SECONDS), "--run-dir", str(run_dir), *flags])

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self._run_dir / name
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []

    def wait_until_it_draws_and_learns(self) -> None:
        while not (self.picture().get("frame") and (self.lines("metrics.jsonl") or [{}])[-1].get("updates")):
            if self._process.poll() is not None:
                sys.exit("the run ended before it was measured")
            time.sleep(0.2)
        time.sleep(WARM_UP_S)

    def picture(self) -> dict[str, Any]:
        path = self._run_dir / "live" / "state.json"
        return json.loads(path.read_bytes()) if path.exists() else {}

    def block(self, drawing: bool) -> dict[str, float]:
        """Mean rates of some seconds."""
        pids = [event["pid"] for event in self.lines("events.jsonl") if event.get("role") == "visualizer"]
        os.kill(pids[-1], signal.SIGCONT if drawing else signal.SIGSTOP)
        time.sleep(1.5)  # the line of figures that is being counted still mixes both
        before = len(self.lines("metrics.jsonl"))
        time.sleep(BLOCK_S)
        lines = self.lines("metrics.jsonl")[before:]
        return {figure: statistics.fmean(line[figure] for line in lines) for figure in FIGURES}

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()


def compare(env_id: str, flags: list[str]) -> None:
    ratios: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    with tempfile.TemporaryDirectory() as folder:
        training = Training(Path(folder) / "run", env_id, flags)
        training.wait_until_it_draws_and_learns()
        for pair in range(PAIRS):
            order = (False, True) if pair % 2 == 0 else (True, False)
            rates = {drawing: training.block(drawing) for drawing in order}
            for figure in FIGURES:
                without, drawn = rates[False][figure], rates[True][figure]
                ratios[figure].append(drawn / without)
                print(f"pair {pair + 1:2}  {figure:<10} without {without:12,.1f}   with {drawn:12,.1f}   "
                      f"ratio {ratios[figure][-1]:.3f}", flush=True)  # fmt: skip
        state = training.picture()
        training.end()
    for figure, values in ratios.items():
        print(f"{figure:<10} with / without: median {statistics.median(values):.3f}, "
              f"{min(values):.3f} to {max(values):.3f} over {len(values)} pairs")  # fmt: skip
    print(f"pictures a second {state['frames_hz']}, speed {state['speed']}, {state['width']} x {state['height']}")


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
        compare(words[0], words[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
