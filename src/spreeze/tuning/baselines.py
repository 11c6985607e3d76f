"""Other ways to search, for comparison: `--adapt enumerate` and `--adapt optuna`. They measure as the tuner does, and
watch nothing afterwards."""

from __future__ import annotations

from dataclasses import replace

from spreeze.tuning.search import FOUND, WATCH, Move, Setting, Space, Steps, Window, speed, try_out

_TRIALS = 8  # as many settings as the tuner measures at most: the same budget of time


def enumerate_all(space: Space, start: Setting) -> Steps:
    """The paper's way, as it is read here: every number of samplers for the most env steps a second, then every batch
    size for the most update frames a second."""
    at = start
    if space.samplers_fixed is None:
        sampled = {}
        for count in range(1, space.samplers + 1):
            window = yield try_out(replace(at, samplers=count), "every number of samplers is tried")
            sampled[count] = window.sample_hz
        at = replace(at, samplers=max(sampled, key=sampled.__getitem__))
    if space.batch_fixed is None:
        drawn = {}
        for batch_size in space.batch_sizes:
            window = yield try_out(replace(at, batch_size=batch_size), "every batch size is tried")
            drawn[batch_size] = window.update_hz * batch_size
        at = replace(at, batch_size=max(drawn, key=drawn.__getitem__))
    yield from _stay(at, "the most env steps and update frames a second of all that were tried")


def optimise(space: Space, start: Setting) -> Steps:
    """A general optimiser that knows nothing of machines: Optuna's default, for what the tuner seeks."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)  # the run's own events tell what is tried
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    best: tuple[float, Setting, Window] | None = None
    for number in range(_TRIALS):
        trial = study.ask()
        setting = start
        if space.samplers_fixed is None:
            setting = replace(setting, samplers=trial.suggest_int("samplers", 1, space.samplers))
        if space.batch_fixed is None:
            setting = replace(setting, batch_size=trial.suggest_categorical("batch_size", space.batch_sizes))
        window = yield try_out(setting, f"trial {number + 1} of {_TRIALS}")
        study.tell(trial, speed(setting, window))
        if best is None or speed(setting, window) > best[0]:
            best = speed(setting, window), setting, window
    assert best is not None
    yield from _stay(best[1], f"the best of {_TRIALS} trials; {best[2].words()}")


def _stay(setting: Setting, reason: str) -> Steps:
    yield Move(setting, FOUND, f"{setting}: {reason}")
    while True:
        yield Move(setting, WATCH, "")
