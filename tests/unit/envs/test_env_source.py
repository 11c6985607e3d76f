"""Where environments come from, and what is refused with which words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from spreeze.envs import source as source_module
from spreeze.envs.probe_env import ProbeAction
from spreeze.envs.registry import choose_backend, find_backend, list_envs, make_vec_env, probe
from spreeze.envs.source import EnvSource, make_env
from spreeze.errors import ConfigError

COUNTING = "spreeze.envs.counting_env:make_counting_env"


class _Spaces(gymnasium.Env):
    def __init__(self, observation: gymnasium.Space, action: gymnasium.Space) -> None:
        self.observation_space, self.action_space = observation, action


def box(*shape: int, low: float = -1.0, high: float = 1.0, dtype: type = np.float32) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(low, high, shape, dtype)


REFUSED = [
    (gymnasium.spaces.Dict(a=box(2)), box(1), "observation is a Dict, expected a flat Box"),
    (box(64, 64, 3), box(1), r"an image of shape \(64, 64, 3\).*FlattenObservation"),
    (box(2, 2), box(1), r"an array of shape \(2, 2\)"),
    (gymnasium.spaces.Discrete(4), box(1), "observation is Discrete"),
    (box(0), box(1), "observation is empty"),
    (box(2), gymnasium.spaces.Discrete(2), r"action is Discrete\(2\), expected a Box of real numbers"),
    (box(2), box(2, dtype=np.int32, low=0, high=3), "expected a Box of real numbers"),
    (box(2), box(2, 2), r"action has shape \(2, 2\)"),
    (box(2), box(0), "action has shape"),
]


@pytest.mark.parametrize(("observation", "action", "message"), REFUSED)
def test_spaces_that_cannot_be_trained_are_refused_in_one_sentence(
    observation: gymnasium.Space, action: gymnasium.Space, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        probe(EnvSource.of(lambda: _Spaces(observation, action)))


@pytest.mark.parametrize("typed", ["my_module.py:make", "./my_module:make", "envs/my_module.py:make"])
def test_a_file_where_a_module_was_expected_is_answered_with_what_to_type(typed: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a module's name, as in 'my_module:make'"):
        make_env(EnvSource.of(typed))


def test_an_unknown_id_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown environment 'Pendulm-v1'\. Did you mean 'Pendulum-v1'"):
        probe(EnvSource.of("Pendulm-v1"))
    with pytest.raises(ConfigError, match="Did you mean 'make_counting_env'"):
        probe(EnvSource.of("spreeze.envs.counting_env:make_counting_emv"))
    with pytest.raises(ConfigError, match="no module 'nowhere_at_all'"):
        probe(EnvSource.of("nowhere_at_all:make"))


@pytest.mark.parametrize("text", ["", " ", ":make", "module:"])
def test_half_an_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="'module:callable'"):
        EnvSource.of(text)


@pytest.mark.parametrize(
    ("env_id", "extra"),
    [("HalfCheetah-v5", "mujoco"), ("BipedalWalker-v3", "box2d"), ("HalfCheetahBulletEnv-v0", "bullet")],
)
def test_a_missing_simulator_is_named_with_the_command_that_installs_it(
    env_id: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_installed", lambda module: False)
    registry = {key: value for key, value in gymnasium.registry.items() if "Bullet" not in key}
    monkeypatch.setattr("gymnasium.envs.registration.registry", registry)
    with pytest.raises(ConfigError, match=rf'pip install "spreeze\[{extra}\]"'):
        probe(EnvSource.of(env_id))


def test_envpool_steps_no_code_of_the_user() -> None:
    with pytest.raises(ConfigError, match=r"--env-backend envpool.*registered environments only"):
        choose_backend(EnvSource.of(COUNTING), "envpool")
    assert choose_backend(EnvSource.of(COUNTING), "gymnasium") == ("gymnasium", "asked for")
    backend, reason = choose_backend(EnvSource.of(COUNTING))
    assert backend == "gymnasium"
    assert "envpool" in reason


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'envpool'"):
        find_backend("envpol")


def test_a_callable_travels_as_bytes_beside_its_json() -> None:
    length = 3

    def make_limited() -> gymnasium.Env:
        return gymnasium.wrappers.TimeLimit(ProbeAction(), length)

    source = EnvSource.of(make_limited)
    assert source.env_id == "make_limited"
    data = json.loads(json.dumps(source.as_json()))
    assert EnvSource.from_json(data, source.pickled) == source
    spec = probe(EnvSource.from_json(data, source.pickled))
    assert (spec.obs_size, spec.action_size, spec.max_episode_steps) == (1, 1, 3)
    with pytest.raises(ConfigError, match="was given as a Python callable"):
        EnvSource.from_json(data)
    named = EnvSource.of("Pendulum-v1")
    assert EnvSource.from_json(named.as_json()) == named
    assert named.pickled is None


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ConfigError, match="a callable that makes an environment"):
        EnvSource.of(ProbeAction())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected a gymnasium"):
        make_env(EnvSource.of(lambda: 3))
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        make_env(EnvSource.of(lambda: 1 / 0))
    lock = __import__("threading").Lock()
    with pytest.raises(ConfigError, match="cannot be sent to other processes"):
        EnvSource.of(lambda: lock)


def test_a_module_in_the_current_folder_is_found_and_stdout_stays_clean(tmp_path: Path) -> None:
    (tmp_path / "my_own_envs.py").write_text(
        "import gymnasium, os\n"
        "from spreeze.envs.probe_env import ProbeAction\n"
        "def make(render_mode=None):\n"
        "    print('from Python'); os.system('echo from a child')\n"
        "    return ProbeAction(render_mode)\n"
        "gymnasium.register('MyOwn-v0', ProbeAction, max_episode_steps=9)\n"
    )
    script = (
        "import sys; sys.path = [p for p in sys.path if p]\n"  # as under a console script
        "from spreeze.envs.registry import probe\n"
        "from spreeze.envs.source import EnvSource, make_env\n"
        "print(probe(EnvSource.of('my_own_envs:make')).obs_size)\n"
        "print(probe(EnvSource.of('my_own_envs:MyOwn-v0')).max_episode_steps)\n"
        "print(make_env(EnvSource.of('my_own_envs:make'), render_mode='rgb_array').render_mode)\n"
    )
    done = _python(script, tmp_path)
    assert done.stdout.split() == ["1", "9", "rgb_array"], done.stderr
    assert "from Python" in done.stderr
    assert "from a child" in done.stderr


def test_bullet_says_nothing_on_stdout(tmp_path: Path) -> None:
    pytest.importorskip("pybullet_envs_gymnasium")
    script = (
        "from spreeze.envs.registry import make_vec_env\n"
        "from spreeze.envs.source import EnvSource\n"
        "make_vec_env(EnvSource.of('HopperBulletEnv-v0'), 'gymnasium', 2, 0).reset()\n"
    )
    done = _python(script, tmp_path)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_mujoco_leaves_the_current_folder_clean(backend: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    if backend == "envpool":
        pytest.importorskip("envpool", exc_type=ImportError)
    script = (
        "import numpy as np\n"
        "from spreeze.envs.fault import EnvFault\n"
        "from spreeze.envs.registry import make_vec_env\n"
        "from spreeze.envs.source import EnvSource\n"
        f"vec = make_vec_env(EnvSource.of('HalfCheetah-v5'), {backend!r}, 2, 0)\n"
        "vec.reset()\n"
        "try: vec.step(np.full((2, 6), np.nan, np.float32))\n"  # MuJoCo warns of an unstable simulation
        "except EnvFault as fault: print(fault.cause)\n"
    )
    done = _python(script, tmp_path)
    assert "nan" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == []


def test_the_list_has_what_can_be_trained_and_only_that() -> None:
    ids = {row["env_id"]: row for row in list_envs()}
    assert ids["Pendulum-v1"]["obs_size"] == 3
    assert "gymnasium" in ids["Pendulum-v1"]["backends"]
    assert not {"CartPole-v1", "Taxi-v4", "CarRacing-v3", "HalfCheetah-v2"} & set(ids)
    assert [row["env_id"] for row in list_envs("pendulum-v1")] == ["Pendulum-v1"]
    assert list_envs("no such thing") == []


def test_importing_the_package_brings_no_simulator(tmp_path: Path) -> None:
    script = (
        "import sys, spreeze.envs, spreeze.envs.registry, spreeze.envs.source\n"
        "print([m for m in ('gymnasium', 'torch', 'mujoco', 'envpool', 'pybullet') if m in sys.modules])\n"
    )
    assert _python(script, tmp_path).stdout.strip() == "[]"


def test_render_gives_a_picture_of_the_first_environment() -> None:
    class Picture(ProbeAction):
        def render(self) -> np.ndarray:  # type: ignore[override]
            return np.full((4, 6, 3), 200, np.uint8)

    vec = make_vec_env(EnvSource.of(lambda: Picture()), "gymnasium", 2, 0, render=True)
    vec.reset()
    assert vec.render().shape == (4, 6, 3)
    assert vec.render().dtype == np.uint8


def _python(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
