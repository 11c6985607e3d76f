"""The visualizer: plays the newest policy at the speed of life, and shows it. It has the lowest priority, and nothing
of the run depends on it: it may be killed, stopped, or unable to draw.

`--visualize` opens its outlets: window, video, or web, the live picture. The supervisor's cell `picture` opens and
closes the last while the run goes on. Without any outlet left the visualizer leaves with exit code 0.
"""

from __future__ import annotations

import os
import time

from spreeze.board import Life
from spreeze.errors import ConfigError, DrawingError
from spreeze.roles.job import Job
from spreeze.roles.links import VisualizerLinks
from spreeze.roles.reporting import report_event, seconds_since_start
from spreeze.watching.clips import Clips
from spreeze.watching.drawing import DrawnEnv, prepare_drawing
from spreeze.watching.following import FollowedPolicy
from spreeze.watching.niceness import LOWEST, lower_priority
from spreeze.watching.outlets import VIDEO, WINDOW, LiveOutlet, Outlet, WindowOutlet
from spreeze.watching.playing import Player

STARTING_NICENESS = 5  # so that it comes up on busy cores as well; then the lowest
CLIPS_NICENESS = 10  # as the evaluator's: some seconds of work a clip, which would take minutes at the lowest
_NAP_S = 0.1


def run(job: Job, links: VisualizerLinks, life: Life) -> None:
    os.nice(STARTING_NICENESS)
    visualizer = _Visualizer(job, links, life)
    try:
        visualizer.work()
    except (DrawingError, ConfigError) as error:  # for good; a try more would not help
        report_event(job, "warning", f"no picture: {error}")
        visualizer.close(str(error), failed=True)
    except BaseException:
        visualizer.close("the visualizer failed", failed=True)
        raise
    else:
        visualizer.close("the run ended" if life.stopping() else "it was asked for no more")


class _Visualizer:
    def __init__(self, job: Job, links: VisualizerLinks, life: Life) -> None:
        self._job, self._links, self._life = job, links, life
        self._cells, self._asked = links.board.section("visualizer"), links.board.section("supervisor")
        self._live = LiveOutlet(job.run_dir, "run", self._warn)
        self._window = WindowOutlet() if job.config.visualize == WINDOW else None
        self._clips: Clips | None = None
        self._niceness = STARTING_NICENESS

    def work(self) -> None:
        """Until nobody wants to see anything, or training is over."""
        prepare_drawing()
        env = DrawnEnv(self._job.env, light=True)
        env.try_to_draw()
        if self._job.config.visualize == VIDEO:
            self._clips = self._make_clips(env.step_s)
        self._take_niceness(LOWEST if self._clips is None else CLIPS_NICENESS)
        policy = FollowedPolicy(self._links.weights, self._job.policy, self._job.env_spec, section=self._cells)
        player = Player(env, self._job.env.env_id, policy, self._outlets, self._clips, self._on_picture)
        self._life.ready()
        while self._go_on():
            if self._outlets() or (self._clips is not None and self._clips.due()):
                player.play_episode(self._go_on)
            else:
                time.sleep(_NAP_S)

    def close(self, reason: str, failed: bool = False) -> None:
        if self._clips is not None:
            self._clips.drop()
        if failed:
            self._live.open()
        self._live.close(reason, failed)
        if self._window is not None:
            self._window.close(reason, failed)

    def _go_on(self) -> bool:
        self._life.beat()
        return self._wanted() and not self._life.stopping()

    def _wanted(self) -> bool:
        window = self._window is not None and self._window.open()
        return window or self._job.config.visualize == VIDEO or bool(self._asked.get("picture"))

    def _outlets(self) -> list[Outlet]:
        """Those that take pictures now."""
        if self._asked.get("picture"):
            live = [self._live] if self._live.open() else []
        else:
            self._live.close("it was asked for no more")
            live = []
        return [*live, *([self._window] if self._window is not None and self._window.open() else [])]

    def _make_clips(self, step_s: float) -> Clips:
        weights, job = self._links.weights, self._job
        return Clips(
            job.run_dir, step_s, lambda: seconds_since_start(job), self._warn, ready=lambda: weights.version() > 0
        )

    def _on_picture(self) -> None:
        self._take_niceness(LOWEST)  # of one that began with clips
        self._cells.add("frames", 1)

    def _take_niceness(self, niceness: int) -> None:
        if niceness > self._niceness:
            self._niceness = niceness
            lower_priority(niceness)

    def _warn(self, text: str) -> None:
        report_event(self._job, "warning", text)
