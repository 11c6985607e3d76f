"""What Stable-Baselines3 and SBX have in common: the callback through which the judge looks."""

from __future__ import annotations

from typing import Any

from protocol import Judge
from sb3_settings import settings_for
from stable_baselines3.common.callbacks import BaseCallback


class Looks(BaseCallback):
    """After every env step: the judge looks when it is time to."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self._judge = judge

    def _on_step(self) -> bool:
        updates = getattr(self.model, "_n_updates", 0)
        return self._judge.look(
            lambda observations: self.model.predict(observations, deterministic=True)[0], self.num_timesteps, updates
        )


def train_and_judge(peer: str, version: str, algorithm: Any) -> None:
    judge = Judge()
    settings, source = settings_for(judge.told["env"])
    judge.about(peer, version, settings, source)
    model = algorithm("MlpPolicy", judge.told["env"], seed=judge.told["seed"], verbose=0, **settings)
    model.learn(total_timesteps=2**31, callback=Looks(judge))
    judge.end()
