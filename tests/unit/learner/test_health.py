"""Numbers that go wrong are found with the batch that did it, and may be taken back once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.algos.algorithm import Metrics  # noqa: E402
from spreeze.board import Board  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.errors import NotFiniteError  # noqa: E402
from spreeze.learner import health as health_module  # noqa: E402
from spreeze.learner.graphs import EagerUpdates  # noqa: E402
from spreeze.learner.health import BATCH_FILE, Health, all_finite  # noqa: E402
from spreeze.learner.losses import Losses  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

LAYOUT, BATCH = Layout(2, 1), 4
ERROR = NotFiniteError("weights are not finite.")


class House:
    """Rows of which one in a hundred has a reward beyond any number."""

    def __init__(self, run_dir: Path, name: str = "sac", restores: bool = False) -> None:
        config = RunConfig.of({"hidden": "8,8", "target_entropy": -1.0})
        self.algorithm = make_algorithm(name, 2, 1, config, torch.device("cpu"), 0, engine="fused", precision="float32")
        self.replay = Replay(LAYOUT, 100, seed=3)
        rows = torch.randn(100, LAYOUT.row_size, generator=torch.Generator().manual_seed(0))
        rows[70, LAYOUT.slice_of("reward")] = torch.inf
        self.replay.extend(rows)
        self.runner = EagerUpdates(self.algorithm, self.replay, BATCH)
        self.updates = self.checked = 0
        self.warnings: list[str] = []
        self.health = Health(run_dir, self.algorithm, self.replay, lambda: self.checked, restores, self.warnings.append)

    def finite(self) -> bool:
        return all_finite({**self.algorithm.state(), "losses": self.algorithm.metrics.values_vector})

    def train_until_wrong(self) -> None:
        while self.finite():
            self.updates += self.runner.run(1)
            if self.finite():
                self.checked = self.updates
            self.health.tend(self.updates)
            assert self.updates < 500

    def judge(self) -> None:
        self.health.judge(ERROR, self.updates, BATCH, lambda: None)


@pytest.fixture(autouse=True)
def copy_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "COPY_EVERY_S", 0.0)


def kept(run_dir: Path) -> tuple[Any, dict[str, Any]]:
    with safe_open(run_dir / BATCH_FILE, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["about"])  # noqa: SIM118


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
def test_the_batch_that_did_it_is_kept_though_others_followed(tmp_path: Path, name: str) -> None:
    house = House(tmp_path, name)
    house.train_until_wrong()
    for _ in range(3):  # noticed only later
        house.updates += house.runner.run(1)
    assert torch.isfinite(house.replay.last_drawn(BATCH).reward).all(), "the last batch is innocent"
    with pytest.raises(NotFiniteError, match=r"not finite. Kept in .*batch.safetensors: the first batch that did it"):
        house.judge()
    batch, about = kept(tmp_path)
    assert batch.keys() == {"obs", "action", "next_obs", "reward", "discount"}
    assert batch["reward"].shape == (BATCH,)
    assert torch.isinf(batch["reward"]).any()
    assert "first" in about["batch"]


def test_without_a_good_state_the_last_batch_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.runner.run(1)
    with pytest.raises(NotFiniteError, match="the batch that was drawn last"):
        house.judge()
    assert kept(tmp_path)[0]["obs"].shape == (BATCH, 2)


def test_training_goes_back_once(tmp_path: Path) -> None:
    house = House(tmp_path, restores=True)
    house.train_until_wrong()
    assert not house.finite()
    house.judge()
    assert house.finite()
    assert "went back to the state of" in house.warnings[0]
    house.train_until_wrong()
    with pytest.raises(NotFiniteError):
        house.judge()


def test_a_disk_that_refuses_does_not_hide_the_trouble(tmp_path: Path) -> None:
    (tmp_path / "errors").write_text("a file is in the way")
    house = House(tmp_path)
    house.train_until_wrong()
    with pytest.raises(NotFiniteError, match="The batch was not kept"):
        house.judge()


def test_losses_that_are_not_finite_are_told_before_they_are_shown() -> None:
    cells, metrics = Board.create(1).section("learner"), Metrics(("critic_loss", "q_mean"), torch.device("cpu"))
    losses = Losses([metrics], cells)
    losses.report()
    metrics["critic_loss"].fill_(torch.nan)
    losses.report()  # of the values before
    with pytest.raises(NotFiniteError, match="critic_loss not finite"):
        losses.report()
    metrics["critic_loss"].fill_(1.0)
    losses.forget()
    losses.report()
    losses.report()
    assert cells.get_float("critic_loss") == 1.0
