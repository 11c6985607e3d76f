"""Settings: the same parse for flags, Python and files; nothing unknown and nothing impossible passes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spreeze.config import RunConfig, flag_of, load_config_file, parse_setting
from spreeze.errors import ConfigError

FIELDS = dataclasses.fields(RunConfig)


def write(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_the_defaults_of_the_contract() -> None:
    config = RunConfig()
    assert (config.algo, config.seed, config.experience, config.weights) == ("sac", 0, "ring", "ssd")
    assert (config.eval_every, config.eval_episodes, config.visualize) == (1.0, 10, "off")
    assert (config.hidden, config.gamma, config.tau, config.lr) == ((256, 256), 0.99, 0.005, 1e-3)
    assert (config.n_step, config.replay_size, config.learning_starts) == (1, "auto", 10_000)
    assert config.replay_ratio == "free"


@pytest.mark.parametrize("setting", FIELDS, ids=lambda setting: setting.name)
def test_every_default_passes_its_own_parse_and_is_explained(setting: dataclasses.Field) -> None:
    assert parse_setting(setting, setting.default) == setting.default
    assert setting.metadata["help"]


def test_defaults_survive_json() -> None:
    assert RunConfig.of(json.loads(json.dumps(RunConfig().as_json()))) == RunConfig()


@pytest.mark.parametrize(
    ("name", "given_value", "value"),
    [
        ("steps", "1e6", 1_000_000),
        ("steps", 1e6, 1_000_000),
        ("hidden", "512,256,128", (512, 256, 128)),
        ("hidden", [64], (64,)),
        ("hidden", 64, (64,)),
        ("device", "cuda", "cuda:0"),
        ("device", "cuda:3", "cuda:3"),
        ("replay_ratio", "0.5", 0.5),
        ("samplers", "auto", "auto"),
        ("until_return", "-150", -150.0),
        ("run_dir", Path("a/b"), "a/b"),
    ],
)
def test_what_is_read(name: str, given_value: Any, value: Any) -> None:
    parsed = getattr(RunConfig.of({name: given_value}), name)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samplers", 0),
        ("samplers", 1.5),
        ("samplers", True),
        ("samplers", "1.5"),
        ("samplers", "1.5e0"),
        ("samplers", "1e999"),
        ("steps", float("nan")),
        ("steps", float("inf")),
        ("gamma", "nan"),
        ("gamma", -0.1),
        ("lr", 0),
        ("lr", float("inf")),
        ("until_return", "nan"),
        ("hidden", ""),
        ("hidden", "0,5"),
        ("device", "cuda:x"),
        ("seed", -1),
        ("seconds", 0),
        ("compile", "yes"),
        ("run_dir", 3),
        ("batch_size", None),
    ],
)
def test_what_is_refused_names_the_flag(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{flag_of(name)}: "):
        RunConfig.of({name: value})


@given(st.sampled_from(FIELDS), st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.lists(st.integers())))
def test_any_value_is_read_or_refused_in_words(setting: dataclasses.Field, value: Any) -> None:
    try:
        parsed = parse_setting(setting, value)
    except ConfigError as error:
        refusal = str(error)
    else:
        assert parse_setting(setting, parsed) == parsed
        return
    assert refusal.startswith(flag_of(setting.name))


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'batchsize'\. Did you mean 'batch_size'"):
        RunConfig.of({"batchsize": 3})


def test_a_file_of_an_earlier_run(tmp_path: Path) -> None:
    data = {
        **RunConfig(gamma=0.9, samplers=3, run_dir="runs/x", replay_size=500).as_json(),
        "env": "Pendulum-v1",
        "auto": {"samplers": {"value": 3, "reason": "because"}},
        "adjusted": {"replay_size": {"asked": 1000, "value": 500, "reason": "because"}},
    }
    settings = load_config_file(write(tmp_path, data))
    assert settings["samplers"] == "auto"
    assert settings["gamma"] == 0.9
    assert settings["replay_size"] == 1000
    assert "run_dir" not in settings
    assert "env" not in settings


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "a JSON list, expected an object"),
        ({"algo": "sac"}, "expected the config.json of a run"),
        ({"algo": "sac", "auto": {}, "adjusted": []}, "expected the config.json of a run"),
        ({"algo": "sac", "auto": {}, "adjusted": {"replay_size": {}}}, "expected the config.json of a run"),
        ({"algo": "sac", "auto": {}, "gama": 0.9}, "unknown setting 'gama'. Did you mean 'gamma'"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, data: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config_file(write(tmp_path, data))


def test_a_file_that_is_not_json(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(ConfigError, match="not a JSON file"):
        load_config_file(path)
