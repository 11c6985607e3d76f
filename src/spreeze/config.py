"""What the user can set: one dataclass, its fields the flags of `spreeze train` and the keywords of spreeze.train.

Every field says how its value is read (`parse`) and what it does (`help`). The command line, the Python call and a
config.json of an earlier run all go through the same parse, so they accept the same things and refuse them with the
same words. 'auto' stays 'auto' here; resolve.py turns it into a number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spreeze.documents import read_document
from spreeze.errors import ConfigError, nearest

AUTO = "auto"
OFF = "off"
RUN_FACTS = (
    "spreeze",
    "env",
    "spec",
    "auto",
    "adjusted",
    "replay_bytes",
    "plan",
    "adapts",
    "resumes",
)  # of config.json, beside the settings
# A run that is resumed keeps them: they are in its networks and rows, or say which run it is.
KEPT_SETTINGS = ("algo", "hidden", "n_step", "gamma", "seed", "run_dir")
Parse = Callable[[Any], Any]


def _number(kind: type, low: float, high: float, what: str) -> Parse:
    def parse(value: Any) -> Any:
        exact = value
        try:
            if kind is int and isinstance(value, str) and "e" in value.lower():
                exact = float(value)  # 1e6
            number = kind(exact)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{value!r} is not {what}") from None
        if isinstance(value, bool) or (isinstance(exact, float) and number != exact):
            raise ValueError(f"{value!r} is not {what}")
        if not (low <= number <= high) or math.isnan(number):
            raise ValueError(f"{value!r} is not {what}")
        return number

    return parse


def whole(low: int = 0, high: int = 2**62) -> Parse:
    return _number(
        int, low, high, f"a whole number of at least {low}" + (f" and at most {high}" if high < 2**62 else "")
    )


def real(low: float = -math.inf, high: float = math.inf) -> Parse:
    bounds = "" if math.isinf(low) else f" of at least {low:g}"
    bounds += "" if math.isinf(high) else f"{' and' if bounds else ' of'} at most {high:g}"
    return _number(float, low, high, "a number" + bounds)


def positive(high: float = math.inf) -> Parse:
    inner = real(0.0, high)

    def parse(value: Any) -> float:
        number = inner(value)
        if number == 0 or math.isinf(number):
            raise ValueError(
                f"{value!r} is not a number above 0" + ("" if math.isinf(high) else f" and at most {high:g}")
            )
        return number

    return parse


def or_word(word: str, inner: Parse) -> Parse:
    def parse(value: Any) -> Any:
        if value == word:
            return word
        try:
            return inner(value)
        except ValueError as error:
            raise ValueError(f"{error}, nor {word!r}") from None

    return parse


def or_none(inner: Parse) -> Parse:
    return lambda value: None if value is None else inner(value)


@dataclass(frozen=True)
class OneOf:
    choices: tuple[str, ...]

    def __call__(self, value: Any) -> str:
        if value not in self.choices:
            raise ValueError(f"{value!r} is not one of {', '.join(self.choices)}.{nearest(str(value), self.choices)}")
        return str(value)


def one_of(*choices: str) -> OneOf:
    return OneOf(choices)


def sizes(value: Any) -> tuple[int, ...]:
    """'256,256' or (256, 256)."""
    parts = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else [value]
    try:
        return tuple(whole(1, 65536)(part) for part in parts)
    except ValueError:
        raise ValueError(f"{value!r} is not a list of layer widths such as 256,256") from None


def text(value: Any) -> str:
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{value!r} is not text")
    return str(value)


def switch(value: Any) -> bool:
    if value in (True, "true", "on"):
        return True
    if value in (False, "false", "off"):
        return False
    raise ValueError(f"{value!r} is not true or false")


def byte_count(value: Any) -> int:
    """1500000000 or '1.5G'; K, M and G are 2^10, 2^20 and 2^30."""
    text = str(value).strip().upper().removesuffix("B").removesuffix("I")
    scale = 2 ** {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
    try:
        count = float(text.rstrip("KMG")) * scale
        if not 2**20 <= count <= 2**50:
            raise ValueError
    except ValueError:
        raise ValueError(f"{value!r} is not a number of bytes of at least 1M, such as 1500000000 or 1.5G") from None
    return int(count)


def device_name(value: Any) -> str:
    name = str(value)
    if name == "cpu" or (name.startswith("cuda:") and name[5:].isdigit()):
        return name
    if name == "cuda":
        return "cuda:0"
    raise ValueError(f"{value!r} is not a device such as cpu or cuda:0")


def setting(default: Any, parse: Parse, help: str, built: tuple | None = None) -> Any:
    """A field of RunConfig. `built`: the values that work today, where not all that the contract names do."""
    return field(default=default, metadata={"parse": parse, "help": help, "built": built})


# titles of the help, each above the settings from the named one on
SECTIONS = {
    "algo": "the run",
    "steps": "when to stop; without any of them it trains until Ctrl-C",
    "samplers": "the machine; what 'auto' became, and why, stands in the run's config.json",
    "hang_after": "faults",
    "eval_every": "watching",
    "hidden": "the algorithm",
}


@dataclass(frozen=True)
class RunConfig:
    """One training run as the user asks for it."""

    algo: str = setting("sac", one_of("sac", "td3", "ddpg"), "the algorithm")
    seed: int = setting(0, whole(0, 2**31 - 1), "seed of environments, networks and noise")
    run_dir: str | None = setting(None, or_none(text), "the run's folder (default: runs/<env>-<algo>-<time>)")

    # when to stop; without any of the three it trains until Ctrl-C
    steps: int | None = setting(None, or_none(whole(1)), "stop after so many env steps")
    seconds: float | None = setting(None, or_none(positive()), "stop after so many seconds, start-up included")
    until_return: float | None = setting(None, or_none(real()), "stop when an evaluation's mean return reaches this")

    # the machine
    samplers: int | str = setting(AUTO, or_word(AUTO, whole(1, 512)), "sampler processes")
    envs_per_sampler: int | str = setting(AUTO, or_word(AUTO, whole(1, 4096)), "environments that each sampler steps")
    batch_size: int | str = setting(AUTO, or_word(AUTO, whole(1, 2**22)), "rows an update draws")
    replay_ratio: float | str = setting(
        "free",
        or_word("free", positive()),
        "update frames per env step; a number is held exactly, the faster side waits",
    )
    device: str = setting(AUTO, or_word(AUTO, device_name), "where the networks are updated: cpu or cuda:N")
    actor_device: str | None = setting(
        AUTO, or_word(AUTO, or_none(device_name)), "two devices: where the actor is updated, beside --critic-device"
    )
    critic_device: str | None = setting(
        AUTO, or_word(AUTO, or_none(device_name)), "two devices: where the critics are updated, beside --actor-device"
    )
    split_mode: str | None = setting(
        AUTO,
        or_none(one_of(AUTO, "exact", "pipelined")),
        "two devices: exact, the numbers of one; or pipelined, both at work at once, the critics' advice an update old",
    )
    env_backend: str = setting(AUTO, one_of(AUTO, "gymnasium", "envpool"), "the engine that steps the environments")
    experience: str = setting("ring", one_of("ring", "pool", "queue", "pipe"), "the way of experience to the learner")
    schedule: str = setting(
        "asynchronous",
        one_of("asynchronous", "synchronous"),
        "synchronous: sample, then update, in turn, as a baseline; --replay-ratio free is then one update an env step",
    )
    weights: str = setting("ssd", one_of("ssd", "memory"), "the way of weights to the other roles")
    precision: str = setting(AUTO, one_of(AUTO, "float32", "bfloat16"), "number format of the products in an update")
    compile: str = setting(AUTO, one_of(AUTO, "off", "on"), "fused and captured updates; off: the plain reference")
    learner_threads: int | str = setting(AUTO, or_word(AUTO, whole(1, 512)), "CPU threads of the update's products")
    adapt: str = setting(
        "on",
        one_of("on", "off", "enumerate", "optuna"),
        "adapt samplers and batch size while training goes on; enumerate, optuna: other ways to search, for comparison",
    )
    retune: bool = setting(False, switch, "forget what earlier runs found on this machine, and look again")

    # faults
    hang_after: float = setting(
        30.0, positive(86_400), "seconds of silence until a sampler is taken for hung; above the slowest step and reset"
    )
    restarts_per_minute: int = setting(5, whole(0, 1000), "times that a role is replaced within a minute")
    sampler_memory: int | str = setting(
        AUTO, or_word(AUTO, byte_count), "bytes (or 2G) that a sampler may take before it is replaced"
    )

    on_not_finite: str = setting(
        "stop",
        one_of("stop", "restore"),
        "losses or weights that are not finite: stop, or go back to the last good state, once",
    )

    # watching
    eval_every: float = setting(1.0, positive(), "seconds between evaluations; back to back where they take longer")
    eval_episodes: int = setting(10, whole(1, 1024), "episodes of an evaluation, side by side")
    visualize: str = setting(
        "off",
        one_of("off", "window", "web", "video"),
        "draw the policy while it trains: in a window, for the page of 'spreeze dashboard', or a clip now and then",
    )
    wandb: str | None = setting(
        None, or_none(text), "copy the figures to this project of Weights & Biases (WANDB_MODE=offline: to the disk)"
    )
    checkpoint_every: float | str = setting(
        300.0, or_word(OFF, positive()), "seconds between checkpoints, replay included; one is saved at the end as well"
    )
    deterministic: bool = setting(
        False,
        switch,
        "same seed, same run, bit for bit; --eval-every and --checkpoint-every count thousands of updates then",
    )

    # the algorithm
    hidden: tuple[int, ...] = setting((256, 256), sizes, "widths of the hidden layers, for example 256,256")
    critic_norm: str = setting("none", one_of("none", "layer"), "layer: normalize the hidden layers of the critics")
    observation_norm: str = setting(
        "off", one_of("off", "on"), "on: networks see observations of mean 0 and deviation 1, over all rows so far"
    )
    reward_scale: float = setting(1.0, positive(), "factor on the rewards that critics learn from; returns are as ever")
    gamma: float = setting(0.99, real(0.0, 1.0), "discount")
    tau: float = setting(0.005, positive(1.0), "share of the new weights that a target network takes per update")
    lr: float = setting(1e-3, positive(), "learning rate of actor, critics and temperature")
    policy_average: float = setting(
        0.1,
        real(0.0, 1.0),
        "evaluated and kept is the actor's average over this share of its updates so far; 0: the actor as it is",
    )
    n_step: int = setting(1, whole(1, 64), "rewards summed before the bootstrap")
    replay_size: int | str = setting(AUTO, or_word(AUTO, whole(2)), "rows kept in replay")
    learning_starts: int = setting(10_000, whole(1), "env steps, with random actions, before the first update")
    init_temperature: float = setting(1.0, positive(), "SAC: the temperature at the start")
    target_entropy: float | str = setting(AUTO, or_word(AUTO, real()), "SAC: entropy that the temperature seeks")
    policy_delay: int = setting(2, whole(1, 64), "TD3: critic updates per actor update")
    target_noise: float = setting(0.2, real(0.0), "TD3: noise on the target's action")
    target_noise_clip: float = setting(0.5, real(0.0), "TD3: bound of that noise")
    exploration_noise: float = setting(
        0.2, real(0.0), "TD3, DDPG: largest noise on a sampler's actions; the environments spread below it"
    )

    @staticmethod
    def of(settings: Mapping[str, Any]) -> RunConfig:
        """From names and values: unknown names and impossible values are refused, with the nearest valid one."""
        fields = {field.name: field for field in dataclasses.fields(RunConfig)}
        parsed = {}
        for name, value in settings.items():
            if name not in fields:
                raise ConfigError(f"unknown setting {name!r}.{nearest(name, fields)}")
            parsed[name] = parse_setting(fields[name], value)
        return RunConfig(**parsed)

    def replace(self, **settings: Any) -> RunConfig:
        return dataclasses.replace(self, **settings)

    def as_json(self) -> dict[str, Any]:
        return {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value
            for field in dataclasses.fields(self)
        }


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def parse_setting(setting_field: dataclasses.Field, value: Any) -> Any:
    flag = flag_of(setting_field.name)
    try:
        parsed = setting_field.metadata["parse"](value)
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None
    built = setting_field.metadata["built"]
    if built is not None and parsed not in built:
        works = ", ".join("leaving it out" if choice in (None, False) else str(choice) for choice in built)
        raise ConfigError(f"{flag} {parsed}: not built yet; today works: {works}")
    return parsed


def load_config_file(path: str | Path) -> dict[str, Any]:
    """The settings of an earlier run's config.json, as the user asked for them ('auto' is chosen afresh)."""
    try:
        data = read_document(Path(path), "the config.json of a run")
    except ConfigError as error:
        raise ConfigError(f"--config {error}") from None
    if not _is_run_config(data):
        raise ConfigError(f"--config {path}: expected the config.json of a run, with 'algo', 'auto' and 'adjusted'")
    names = {field.name for field in dataclasses.fields(RunConfig)}
    for key in data:
        if key not in names and key not in RUN_FACTS:
            raise ConfigError(f"--config {path}: unknown setting {key!r}.{nearest(key, names)}")
    asked = {**data, **dict.fromkeys(data["auto"], AUTO)}
    asked |= {name: change["asked"] for name, change in data.get("adjusted", {}).items()}
    return {name: asked[name] for name in names - {"run_dir", "retune"} if name in asked}


def _is_run_config(data: Any) -> bool:
    if not isinstance(data, dict) or "algo" not in data or not isinstance(data.get("auto"), dict):
        return False
    adjusted = data.get("adjusted", {})
    return isinstance(adjusted, dict) and all(isinstance(c, dict) and "asked" in c for c in adjusted.values())
