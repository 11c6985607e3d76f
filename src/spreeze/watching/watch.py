"""`spreeze watch RUN`: a run's policy at the speed of life, from another terminal.

It reads what the run leaves on the disk and asks nothing of it. While the run goes on it follows the live weights, or
the best policy where those are not on the disk (--weights memory), until the run ends; of a run that is over it plays
the best policy until it is told to stop. It shows a window, or writes the live picture where there is no screen.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spreeze.documents import read_document
from spreeze.envs.kept import find_source
from spreeze.errors import ConfigError, SpreezeError
from spreeze.run_folder import CONFIG_FILE, find_run, lives
from spreeze.watching.drawing import DrawnEnv, has_screen, prepare_drawing
from spreeze.watching.following import BestFollower, FollowedPolicy, check_fits
from spreeze.watching.live import FRAME, drawn_by
from spreeze.watching.niceness import lower_priority
from spreeze.watching.outlets import WEB, WINDOW, LiveOutlet, Outlet, WindowOutlet, check_outlet
from spreeze.watching.playing import Player
from spreeze.weights.link import Follower, WeightsStamp
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.policy_file import LIVE_POLICY_SPEC, load_policy
from spreeze.weights.published import AVERAGE, PolicyFollower
from spreeze.weights.ssd import SsdFollower

LOOK_EVERY_S = 0.5
_SPEC_WITHIN_S = 10.0  # a run that has just made its folder
_NAP_S = 0.1


class Watched:
    """A run, as its folder tells it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.was_live = lives(run_dir)
        self._looked_s = time.monotonic()
        self._over = not self.was_live

    def ended(self) -> bool:
        """It was live, and is no more. Looked at now and then."""
        now = time.monotonic()
        if not self._over and now - self._looked_s > LOOK_EVERY_S:
            self._looked_s = now
            self._over = not lives(self.run_dir)
        return self.was_live and self._over

    def end(self) -> str:
        """How it ended, for people."""
        try:
            summary = read_document(self.run_dir / "summary.json", "how a run ended")
        except ConfigError:
            return "the run is over, and left no summary: it was killed"
        return f"the run has ended: {summary.get('status')}, {summary.get('reason')}"


def watch_run(run: str, how: str | None, trust: bool, say: Callable[[str], None]) -> None:
    """`how`: window or web; None: a window where there is a screen. Ends with the run, or by KeyboardInterrupt."""
    run_dir = find_run(run)
    watched = Watched(run_dir)
    how = how or choose_outlet()
    check_outlet(how)
    source = find_source(run_dir, trust)
    follower, spec, describe = _followed(run_dir, watched.was_live, say)
    prepare_drawing()
    env = DrawnEnv(source, light=True)
    policy = FollowedPolicy(follower, spec, check_fits(spec, env.env, source.env_id), describe)
    outlet: Outlet = WindowOutlet() if how == WINDOW else LiveOutlet(run_dir, "watch", say)
    player = Player(env, source.env_id, policy, lambda: [outlet], on_picture=_Once(lower_priority))

    def go_on() -> bool:
        return outlet.open() and not watched.ended()

    reason = "nobody watches any more"
    say(_where(run_dir, how, watched.was_live))
    try:
        while True:
            if not outlet.open():
                if how == WINDOW:
                    return
                _wait_for_turn(run_dir, outlet, watched, say)
            if watched.ended():
                reason = watched.end()
                say(reason)
                return
            player.play_episode(go_on)
    except SpreezeError as error:
        outlet.close(str(error), failed=True)
        raise
    finally:
        outlet.close(reason)
        env.close()


def choose_outlet() -> str:
    if not has_screen():
        return WEB
    try:
        check_outlet(WINDOW)
    except ConfigError:
        return WEB
    return WINDOW


class _Once:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        if self._call is not None:
            self._call()
            self._call = None


def _followed(
    run_dir: Path, live: bool, say: Callable[[str], None]
) -> tuple[Follower, PolicySpec, Callable[[WeightsStamp], dict[str, Any]] | None]:
    """What is followed, what it is a vector of, and how it describes itself."""
    on_disk = read_document(run_dir / CONFIG_FILE, "the config.json of a run").get("weights") != "memory"
    if live and on_disk:
        spec = _live_spec(run_dir)
        return PolicyFollower(SsdFollower(run_dir), spec.weight_count, AVERAGE), spec, None
    if live:
        say("this run keeps its live weights in memory: shown is the best policy so far")
    best = BestFollower(run_dir)
    return best, load_policy(run_dir).spec, best.describe


def _live_spec(run_dir: Path) -> PolicySpec:
    path = run_dir / LIVE_POLICY_SPEC
    deadline = time.monotonic() + _SPEC_WITHIN_S
    while not path.is_file() and time.monotonic() < deadline:
        time.sleep(_NAP_S)
    policy = read_document(path, "the description of a run's live weights").get("policy")
    if not isinstance(policy, dict):
        raise ConfigError(f"{path}: not the description of a run's live weights (no 'policy')")
    return PolicySpec.from_json(policy)


def _where(run_dir: Path, how: str, live: bool) -> str:
    what = "the policy as it learns" if live else "the best policy of a run that is over"
    if how == WINDOW:
        return f"{what}, in a window; close it or press Ctrl-C to stop"
    return f"{what}, as {run_dir / FRAME}; see it with: spreeze dashboard {_folder(run_dir)}; Ctrl-C stops"


def _folder(run_dir: Path) -> str:
    return shlex.quote(str(run_dir.parent))


def _wait_for_turn(run_dir: Path, outlet: Outlet, watched: Watched, say: Callable[[str], None]) -> None:
    """One process draws a run's picture; this one goes on when that stops."""
    drawer = drawn_by(run_dir) or {}
    who = (
        "the run itself" if drawer.get("started_by") == "run" else f"another process ({drawer.get('pid', 'starting')})"
    )
    say(f"{who} draws the live picture already; see it with: spreeze dashboard {_folder(run_dir)}; waiting for my turn")
    while not outlet.open() and not watched.ended():
        time.sleep(_NAP_S)
