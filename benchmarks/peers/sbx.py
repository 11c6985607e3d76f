"""SBX's SAC: Stable-Baselines3's in JAX."""

from __future__ import annotations

import sys
from pathlib import Path

here = str(Path(__file__).parent)  # this file has the name of the package that it measures
sys.path[:] = [place for place in sys.path if place != here]
import sbx as package  # noqa: E402

sys.path.insert(0, here)
from sb3_looks import train_and_judge  # noqa: E402

if __name__ == "__main__":
    train_and_judge("sbx", package.__version__, package.SAC)
