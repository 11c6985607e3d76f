"""Flags of a bench: read by the settings' own parsers, refused with the nearest valid one."""

from __future__ import annotations

import pytest

from spreeze.bench import run_bench
from spreeze.bench.run import DEFAULT_SECONDS, read_run_options
from spreeze.errors import ConfigError


@pytest.mark.parametrize(
    ("what", "words", "told"),
    [
        ("samplings", [], "'sampling'"),
        ("ablation", ["--budget", "1"], "runs of 0.0 s each say nothing"),
        ("compare", ["Pendulum-v1"], "--threshold is missing"),
        ("sampling", [], "expected one environment"),
        ("sampling", ["Pendulum-v1", "Hopper-v5"], "expected one environment"),
        ("sampling", ["Pendulum-v2"], "Pendulum-v"),
        ("sampling", ["Pendulum-v1", "--sampler", "1"], "'--samplers'"),
        ("sampling", ["Pendulum-v1", "--samplers"], "--samplers needs a value"),
        ("sampling", ["Pendulum-v1", "--samplers", "0"], "--samplers"),
        ("sampling", ["Pendulum-v1", "--windows", "4"], "at least 5"),
        ("transfer", ["Pendulum-v1"], "expected only flags"),
        ("transfer", ["--row-bytes", "202"], "multiple of 4"),
        ("transfer", ["--transport", "carrier-pigeon"], "ring"),
        ("transfer", ["--hz", "0"], "--hz"),
        ("weights", ["--transport", "ssdd"], "'ssd'"),
        ("weights", ["--hidden", "256,x"], "--hidden"),
        ("learner", ["--batch-size", "64,0"], "--batch-size"),
        ("learner", ["--precision", "float33"], "'float32'"),
        ("learner", ["--batch-size", "64", "--replay-size", "32"], "--replay-size"),
        ("learner", ["--device", "cuda:77"], "--device"),
        ("run", [], "expected one environment"),
        ("run", ["Pendulum-v1", "--batch-sizes", "64"], "'--batch-size'"),
        ("run", ["Pendulum-v1", "--run-dir", "here"], "unknown flag --run-dir"),
    ],
)
def test_what_cannot_be_measured_is_refused(what: str, words: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        run_bench(what, words)
    assert told in str(refusal.value)


def test_a_run_takes_flags_of_train_and_its_own_in_any_order() -> None:
    env_id, config, options = read_run_options(["--alone", "--batch-size=64", "Pendulum-v1", "--samplers", "2"])
    assert env_id == "Pendulum-v1"
    assert (config.batch_size, config.samplers, config.seconds) == (64, 2, DEFAULT_SECONDS)
    assert options.alone
