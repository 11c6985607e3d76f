"""What an ablation plans, how it keeps to its budget and how it goes on after an interruption; runs are pretended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spreeze.bench.ablation import AblationOptions, ablate, read_ablation, thresholds_of
from spreeze.bench.study.questions import QUESTIONS, RATIO_OF_THE_FIRST
from spreeze.bench.study.rows import median_or_none, rows_of
from spreeze.bench.study.spreeze_run import steady_part
from spreeze.bench.study.trials import Trial, seconds_for_each, trials_of
from spreeze.config import RunConfig
from spreeze.errors import ConfigError


class Runs:
    """Stands for whole runs: each takes all of its time and says what it was asked."""

    def __init__(self, interrupted_at: int | None = None, took_s: float | None = None) -> None:
        self.made: list[Trial] = []
        self._interrupted_at, self._took_s = interrupted_at, took_s

    def __call__(self, trial: Trial, run_dir: Path, seconds: float) -> dict[str, Any]:
        if len(self.made) == self._interrupted_at:
            raise KeyboardInterrupt
        self.made.append(trial)
        return {
            **trial._asdict(), "key": trial.key, "seconds": seconds, "took_s": self._took_s or seconds + 1,
            "status": "finished", "reason": "", "solved_at_s": None if trial.seed == 2 else 10.0 + trial.seed,
            "best_return": -150.0, "replay_ratio": 3.5, "cpu_s": 4.0, "peak_bytes": 10**8, "env_steps": 9, "updates": 8,
            "windows": 6, "figures": {"sample_hz": [1.0, 2.0 + trial.seed, 9.0]},
        }  # fmt: skip


def options(out: Path, **given: Any) -> AblationOptions:
    return AblationOptions(**{"what": ("experience",), "seeds": 3, "budget": 600.0, "out": str(out), **given})


def start(out: Path, runs: Any, **given: Any) -> dict[str, Any]:
    return ablate(["ablation"], ["Pendulum-v1"], options(out, **given), {}, runs)


def test_every_variant_is_made_of_flags_that_train_takes() -> None:
    for question in QUESTIONS.values():
        names = [variant.name for variant in question.variants]
        assert len(set(names)) == len(names) > 1
        for variant in question.variants:
            flags = {name: value for name, value in variant.flags.items() if value != RATIO_OF_THE_FIRST}
            RunConfig.of(flags)


def test_trials_come_seed_by_seed_with_the_variant_s_flags_over_all_others() -> None:
    chosen = {"weights": QUESTIONS["weights"]}
    trials = trials_of(["A", "B"], chosen, range(2), {"weights": "ssd", "lr": 1}, {"B": {"until_return": 5}})
    assert [(t.seed, t.env, t.variant) for t in trials[:4]] == [
        (0, "A", "ssd"), (0, "A", "memory"), (0, "B", "ssd"), (0, "B", "memory"),
    ]  # fmt: skip
    assert trials[3].flags == {"weights": "memory", "lr": 1, "until_return": 5}
    assert len({trial.key for trial in trials}) == len(trials) == 8
    assert all("/" not in Trial("a/b:c d", "w", "v", 0, {}).key for _ in (0,))


def test_a_budget_is_shared_out_or_refused() -> None:
    assert seconds_for_each(600.0, 12) == 45.0
    with pytest.raises(ConfigError, match=r"12 runs of 5\.0 s each say nothing.*give 180"):
        seconds_for_each(60.0, 12)


def test_thresholds_for_all_or_each() -> None:
    assert thresholds_of(None, ["A"]) == {}
    assert thresholds_of("-200", ["A", "B"]) == {"A": -200.0, "B": -200.0}
    assert thresholds_of("A=-200,B=5", ["A", "B"]) == {"A": -200.0, "B": 5.0}
    with pytest.raises(ConfigError, match="'C' is none of the environments here"):
        thresholds_of("C=1", ["A"])
    with pytest.raises(ConfigError, match="expected a return"):
        thresholds_of("high", ["A"])
    with pytest.raises(ConfigError, match="expected a return"):
        thresholds_of("nan", ["A"])


def test_flags_of_train_hold_for_all_runs_and_wrong_ones_are_refused_at_once() -> None:
    envs, given, flags = read_ablation(["Pendulum-v1", "--seeds", "2", "--lr", "0.002", "Hopper-v5"])
    assert (envs, given.seeds, flags) == (["Pendulum-v1", "Hopper-v5"], 2, {"lr": "0.002"})
    with pytest.raises(ConfigError, match="unknown flag --sede"):
        read_ablation(["--sede", "2"])
    with pytest.raises(ConfigError, match="--lr"):
        read_ablation(["--lr", "none"])
    with pytest.raises(ConfigError, match="Did you mean 'weights'"):
        read_ablation(["--what", "weight"])


def test_all_runs_are_made_once_and_told(tmp_path: Path) -> None:
    runs = Runs()
    told = start(tmp_path / "out", runs)
    assert [(trial.seed, trial.variant) for trial in runs.made] == [
        (seed, way) for seed in range(3) for way in ("ring", "pool", "queue", "pipe")
    ]
    assert runs.made[0].flags == {}
    row = told["rows"][0]
    assert (row["variant"], row["seeds"], row["solved"], row["solved_at_s"]) == ("ring", 3, 2, 11.0)
    assert (row["sample_hz"], row["spread"]["sample_hz"], row["windows"]) == (3.0, [1.0, 9.0], 18)
    json.dumps(told, allow_nan=False)
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| pipe | 3 | 2 | 11.0 (10.0 to 11.0) | -150 |" in table
    assert told["settings"]["left_out"] == []


def test_an_interrupted_bench_goes_on_where_it_was(tmp_path: Path) -> None:
    first, out = Runs(interrupted_at=5), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        start(out, first)
    with open(out / "runs.jsonl", "ab") as file:
        file.write(b'{"key": "half a li')  # the bench was killed while it wrote
    second = Runs()
    told = start(out, second)
    assert len(first.made) == 5
    assert {trial.key for trial in first.made}.isdisjoint({trial.key for trial in second.made})
    assert len(second.made) == 7
    assert [row["seeds"] for row in told["rows"]] == [3, 3, 3, 3]
    third = Runs()
    start(out, third)
    assert third.made == []
    assert len((out / "runs.jsonl").read_text().splitlines()) == 12


def test_other_settings_do_not_go_into_the_same_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    start(out, Runs())
    with pytest.raises(ConfigError, match=r"other settings \(budget, seconds\)"):
        start(out, Runs(), budget=900.0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(ConfigError, match="is not empty and holds no study"):
        start(tmp_path / "mine", Runs())


def test_no_run_is_begun_when_the_budget_is_used_up(tmp_path: Path) -> None:
    runs = Runs(took_s=100.0)  # they were to take 50
    told = start(tmp_path / "out", runs)
    assert len(runs.made) == 6
    assert len(told["settings"]["left_out"]) == 6
    assert [row["seeds"] for row in told["rows"]] == [2, 2, 1, 1]
    assert "Left out, because the time was used up: queue (seed 1)" in (tmp_path / "out" / "table.md").read_text()


def test_a_ratio_is_taken_from_the_first_variant_of_the_same_seed(tmp_path: Path) -> None:
    runs = Runs()
    start(tmp_path / "out", runs, what=("schedule",), seeds=1)
    assert runs.made[1].flags == {"schedule": "synchronous", "replay_ratio": 3.5}

    def without_ratio(trial: Trial, run_dir: Path, seconds: float) -> dict[str, Any]:
        return {**Runs()(trial, run_dir, seconds), "replay_ratio": None}

    told = start(tmp_path / "other", without_ratio, what=("schedule",), seeds=1)
    assert told["rows"][1]["why"] == "the first variant's run came to no ratio that could be held"
    assert told["rows"][1]["seeds"] == 0


def test_a_run_that_was_refused_says_why() -> None:
    trial = Trial("A", "placement", "two, exact", 0, {})
    record = {**trial._asdict(), "status": "refused", "reason": "no GPU here", "took_s": 1.0}
    (row,) = rows_of([record])
    assert (row["why"], row["seeds"], row["windows"]) == ("no GPU here", 0, 0)


def test_what_was_not_solved_counts_as_slowest() -> None:
    assert median_or_none([3.0, None, 5.0]) == 5.0
    assert median_or_none([3.0, None, None]) is None
    assert median_or_none([]) is None


def test_a_run_s_warm_up_and_its_last_second_are_left_out() -> None:
    lines = [{"wall_s": float(second)} for second in range(10)]
    assert [line["wall_s"] for line in steady_part(lines, first_update_s=1.5)] == [6.0, 7.0, 8.0]
    assert steady_part(lines, None) == []
