"""A policy on disk: what was saved is what acts, and whatever else lies there is refused with one clear error."""

from __future__ import annotations

import contextlib
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from spreeze.errors import ConfigError, SpreezeError, WeightsError
from spreeze.spec import EnvSpec
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec
from spreeze.weights.policy_file import POLICY_FILE, Policy, load_policy, save_policy

SPEC = PolicySpec("tanh_gaussian", 3, 2, (16,))
ENV = EnvSpec("Test-v0", 3, 2, (-2.0, 0.0), (2.0, 10.0), 200)
FLAT = np.random.default_rng(0).normal(0, 0.5, SPEC.weight_count).astype(np.float32)
OBS = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_policy(tmp_path, SPEC, ENV, FLAT, {"return_mean": -150.0})


def test_what_was_saved_acts_in_the_environment_s_bounds(saved: Path) -> None:
    policy = load_policy(saved)
    assert (policy.spec, policy.env, policy.about) == (SPEC, ENV, {"return_mean": -150.0})
    plain = NumpyPolicy(SPEC, 5)
    plain.flat[:] = FLAT
    expected = np.array([0.0, 5.0]) + plain.act(OBS) * np.array([2.0, 5.0])
    np.testing.assert_allclose(policy(OBS), expected, rtol=1e-5, atol=1e-6)
    assert policy(OBS).dtype == np.float32


def test_a_policy_is_found_by_run_folder_policy_folder_and_file(saved: Path) -> None:
    for path in (saved, str(saved), saved.parent, saved.parent.parent):
        assert load_policy(path).env == ENV


def test_one_observation_or_a_batch(saved: Path) -> None:
    policy = load_policy(saved)
    assert policy(OBS[0]).shape == (2,)
    assert policy(OBS[0].tolist()).shape == (2,)
    assert policy(OBS).shape == (5, 2)
    np.testing.assert_allclose(policy(OBS[3]), policy(OBS)[3], rtol=1e-5)
    first = policy(OBS[0])
    kept = first.copy()
    policy(OBS[1])
    np.testing.assert_array_equal(first, kept)  # an action that was given is not changed by the next


@pytest.mark.parametrize("shape", [(), (2,), (4,), (5, 2), (1, 5, 3)])
def test_an_observation_of_another_shape_is_refused_with_what_was_expected(saved: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(SpreezeError, match=r"expected \(3,\) or \(B, 3\)"):
        load_policy(saved)(np.zeros(shape))


def test_exploring_actions_differ_from_the_best_ones(saved: Path) -> None:
    policy = load_policy(saved)
    assert not np.allclose(policy(OBS), policy(OBS, deterministic=False))
    np.testing.assert_array_equal(policy(OBS), policy(OBS))


@pytest.mark.parametrize(
    ("low", "high"), [(0.1, 0.7), (-0.3, 0.1), (-3.4e38, 3.4e38), (1e-3, 1e3), (-np.inf, np.inf), (-np.inf, 1.0)]
)
def test_no_action_leaves_its_bounds(low: float, high: float) -> None:
    low32, high32 = float(np.float32(low)), float(np.float32(high))
    spec = PolicySpec("tanh", 1, 1, ())
    env = EnvSpec("Test-v0", 1, 1, (low32,), (high32,))
    policy = Policy(spec, env, np.array([1.0, 0.0], np.float32), {})
    actions = policy(np.array([[-100.0], [0.0], [100.0]]))[:, 0]
    ends = (low32, high32) if np.isfinite([low32, high32]).all() else (-1.0, 1.0)
    assert np.isfinite(actions).all()
    assert (actions[0], actions[2]) == ends
    assert ends[0] <= actions[1] <= ends[1]


def test_saving_again_replaces_the_file_and_leaves_nothing_beside_it(saved: Path, tmp_path: Path) -> None:
    save_policy(tmp_path, SPEC, ENV, 2 * FLAT, {})
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
    assert not np.allclose(load_policy(saved)(OBS), Policy(SPEC, ENV, FLAT, {})(OBS))


def test_a_failed_save_leaves_the_earlier_policy(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        save_policy(tmp_path, SPEC, ENV, 2 * FLAT, {})
    np.testing.assert_array_equal(load_policy(saved)(OBS), Policy(SPEC, ENV, FLAT, {})(OBS))


# --- what a stranger may hand over --------------------------------------------------------------------------------


def write(folder: Path, flat: np.ndarray, **metadata: str) -> Path:
    path = folder / POLICY_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(save({"weights": flat}, metadata=metadata))
    return path


def assert_refused(path: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        load_policy(path)
    assert str(path) in str(caught.value)


GOOD_POLICY, GOOD_ENV = json.dumps(SPEC.as_json()), json.dumps(ENV.as_json())


def changed(good: str, **fields: Any) -> str:
    return json.dumps({**json.loads(good), **fields})


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        ("", GOOD_ENV),
        ("{", GOOD_ENV),
        ("[]", GOOD_ENV),
        ("[" * 100_000, GOOD_ENV),
        (changed(GOOD_POLICY, kind="exec"), GOOD_ENV),
        (changed(GOOD_POLICY, hidden=[17]), GOOD_ENV),
        (changed(GOOD_POLICY, hidden=[10**9, 10**9]), GOOD_ENV),
        (changed(GOOD_POLICY, obs_size=float("inf")), GOOD_ENV),
        (GOOD_POLICY, "null"),
        (GOOD_POLICY, changed(GOOD_ENV, obs_size=4)),
        (GOOD_POLICY, changed(GOOD_ENV, obs_size=float("inf"))),
        (GOOD_POLICY, changed(GOOD_ENV, obs_size="many")),
        (GOOD_POLICY, changed(GOOD_ENV, action_low=[-1.0])),
        (GOOD_POLICY, changed(GOOD_ENV, action_high=[1.0] * 3)),
        (GOOD_POLICY, changed(GOOD_ENV, action_high=[10**400, 1])),
        (GOOD_POLICY, changed(GOOD_ENV, action_low=None)),
        (GOOD_POLICY, "[" * 100_000),
    ],
    ids=range(17),
)
def test_a_hostile_description_is_refused(tmp_path: Path, policy: str, env: str) -> None:
    assert_refused(write(tmp_path, FLAT, policy=policy, env=env))


@pytest.mark.parametrize("flat", [FLAT[:-1], np.append(FLAT, 0), FLAT[None], np.zeros(0)], ids=range(4))
def test_a_vector_of_another_shape_is_refused(tmp_path: Path, flat: np.ndarray) -> None:
    assert_refused(write(tmp_path, flat.astype(np.float32), policy=GOOD_POLICY, env=GOOD_ENV))


def test_a_file_without_description_or_weights_is_refused(tmp_path: Path) -> None:
    assert_refused(write(tmp_path, FLAT))
    path = tmp_path / POLICY_FILE
    path.write_bytes(save({"other": FLAT}, metadata={"policy": GOOD_POLICY, "env": GOOD_ENV}))
    assert_refused(path)


def test_damaged_bytes_are_refused_or_harmless(saved: Path) -> None:
    """Truncated at many lengths, and with random bytes changed in its header."""
    data, dice = saved.read_bytes(), random.Random(0)
    for kept in [*range(0, len(data), 7), len(data) - 1]:
        saved.write_bytes(data[:kept])
        assert_refused(saved)
    header_bytes = len(data) - FLAT.nbytes
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(dice.randint(1, 8)):
            damaged[dice.randrange(header_bytes)] = dice.randrange(256)
        saved.write_bytes(damaged)
        with contextlib.suppress(WeightsError):  # a bound that is another number is still a policy
            load_policy(saved)


@pytest.mark.parametrize("name", ["nothing", "nothing/latest"])
def test_no_policy_there_says_where_one_appears(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        load_policy(tmp_path / name)
