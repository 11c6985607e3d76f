"""Stable-Baselines3's SAC."""

from __future__ import annotations

import stable_baselines3
from sb3_looks import train_and_judge

if __name__ == "__main__":
    train_and_judge("sb3", stable_baselines3.__version__, stable_baselines3.SAC)
