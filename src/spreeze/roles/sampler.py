"""A sampler: steps K environments with the newest policy it has and hands every transition over. No torch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from spreeze.board import RETURNS_KEPT, Board, Life, Section
from spreeze.envs.fault import EnvFault
from spreeze.envs.registry import find_backend, make_vec_env
from spreeze.envs.seeds import env_seed, role_seed
from spreeze.experience.link import Sender, Stamp
from spreeze.experience.packing import Packer, make_packer
from spreeze.memory import fence
from spreeze.roles.acting import Actor, noise_scales
from spreeze.roles.env_faults import Actions, EnvFaults, HangWatch, since
from spreeze.roles.job import Job
from spreeze.roles.links import SamplerLinks
from spreeze.spec import Step, VecEnv, layout_of
from spreeze.weights.link import WeightsStamp
from spreeze.weights.numpy_policy import NumpyPolicy
from spreeze.weights.refresh import Refresher

_WAIT_S = 0.0005  # for room in the ring, or for pacing
_ROUND_WAIT_S = 0.0001  # for the learner, which the others wait for as well
_PARKED_S = 0.003  # between two looks of a parked sampler: it takes 1 % of a core and is back within milliseconds


def run(job: Job, links: SamplerLinks, life: Life) -> None:
    config, section = job.config, links.board.section(job.role)
    policy = NumpyPolicy(job.policy, int(config.envs_per_sampler), _noise_seed(job, section))
    refresher = Refresher(links.weights, policy, section)
    pace = _Pace(links.board, section, _index(job), links.rows, life, config.learning_starts, config.steps)
    faults = EnvFaults(job.run_dir, job.role, section)
    if config.deterministic:
        _run_rounds(job, links, life, pace, faults)
        return
    groups = _make_groups(job, section, policy)
    section.add("lives", 1)
    life.ready()
    if job.origin is not None and job.origin.updates and not _wait_for_weights(refresher, life):
        return
    for group in groups:
        group.begin(refresher.stamp)
    begun, resting, group = deque(groups), deque[_Group](), groups[0]
    watch = HangWatch(
        silent_s=lambda: since(section.get("heartbeat_ns")),
        hang_after_s=config.hang_after,
        write_down=lambda silent_s: faults.write_down(group.vec.stalled(silent_s), group.actions),  # at whichever it is
    )
    while pace.wait_for_turn():
        refresher.refresh()
        group = begun.popleft()
        if not _finish(group, pace, faults, section):
            break
        resting.append(group)
        if pace.parked():
            if begun:
                continue  # every block that was begun is announced before it parks
            if not pace.park():
                break
            refresher.refresh()
        while resting:
            group = resting.popleft()
            group.begin(refresher.stamp)
            begun.append(group)
    watch.stop()
    for group in groups:
        group.vec.close()


def _run_rounds(job: Job, links: SamplerLinks, life: Life, pace: _Pace, faults: EnvFaults) -> None:
    """One step of each group a round, with the weights of the round before (learner/rounds.py). A new era begins new
    episodes with policy, noise and environments made anew, as a process does that goes on from a checkpoint."""
    section, learner = links.board.section(job.role), links.board.section("learner")
    era, groups = -1, list[_Group]()
    life.ready()
    while _wait_until(lambda: learner.get("round") > section.get("rounds"), life):
        fence()  # behind the round stand its era and its weights
        if era != learner.get("era"):
            era = learner.get("era")
            for group in groups:
                group.vec.close()
            section.set("lives", era)
            policy = NumpyPolicy(job.policy, int(job.config.envs_per_sampler), _noise_seed(job, section))
            refresher = Refresher(links.weights, policy, section)
            groups = _make_groups(job, section, policy)
        if not _load(refresher, learner.get("weights_version"), life):
            break
        for group in groups:
            group.begin(refresher.stamp)
        for group in groups:
            if not _finish(group, pace, faults, section):
                return
        fence()
        section.add("rounds", 1)
    for group in groups:
        group.vec.close()


def _finish(group: _Group, pace: _Pace, faults: EnvFaults, section: Section) -> bool:
    """The step that has begun, and its rows on their way. False when it is time to stop."""
    try:
        rows = group.finish()
    except EnvFault as fault:
        section.add("lost_rows", group.forget())
        group.obs = faults.recover(group.vec, fault, group.actions)
        return True
    return not len(rows) or pace.send(rows, Stamp(*group.stamp), group.stepped_ns)


def _load(refresher: Refresher, version: int, life: Life) -> bool:
    """This very version. False when it is time to stop."""

    def is_here() -> bool:
        refresher.refresh()
        return refresher.stamp.version == version

    return _wait_until(is_here, life)


def _wait_until(condition: Callable[[], bool], life: Life) -> bool:
    """False when it is time to stop."""
    while not condition():
        life.beat()
        if life.stopping():
            return False
        time.sleep(_ROUND_WAIT_S)
    life.beat()
    return True


def _wait_for_weights(refresher: Refresher, life: Life) -> bool:
    """A run that goes on acts with its policy from the first step. False when it is time to stop."""
    while not refresher.refresh():
        life.beat()
        if life.stopping():
            return False
        time.sleep(_WAIT_S)
    return True


def _noise_seed(job: Job, section: Section) -> int:
    """Of the actions; a replaced sampler must not draw its predecessor's."""
    address = [job.config.seed, _index(job), section.get("lives")]
    return int(np.random.SeedSequence(address).generate_state(1)[0])


def _index(job: Job) -> int:
    return int(job.role.removeprefix("sampler-"))


def _make_groups(job: Job, section: Section, policy: NumpyPolicy) -> list[_Group]:
    """One group of K environments; or, where the engine steps by itself, two of K/2: it steps the one while the policy
    acts for the other."""
    config, num_envs, life_number = job.config, int(job.config.envs_per_sampler), section.get("lives")
    count = find_backend(config.env_backend).GROUPS
    steps_by_itself = count > 1
    count = count if num_envs % count == 0 else 1
    size = num_envs // count
    scales = noise_scales(config.exploration_noise, _index(job), num_envs, int(config.samplers))
    seed = role_seed(config.seed, _index(job), life_number)
    groups = []
    for first in range(0, num_envs, size):
        vec = make_vec_env(job.env, config.env_backend, size, env_seed(seed, first), spec=job.env_spec)
        actor = Actor(policy, scales[first : first + size], _noise_seed(job, section) + 1 + first)
        packer = make_packer(layout_of(job.env_spec), size, config.gamma, config.n_step)
        groups.append(_Group(vec, actor, packer, section, steps_by_itself))
    return groups


class _Group:
    """Environments that are stepped together, and what is known of the step that they are at."""

    def __init__(self, vec: VecEnv, actor: Actor, packer: Packer, section: Section, steps_by_itself: bool) -> None:
        self.vec = vec
        self.obs = vec.reset()
        self.actions = Actions(vec.num_envs, vec.spec.action_size)
        self.stamp = WeightsStamp(0, 0, 0)
        self.stepped_ns = 0
        self._actor = actor
        self._packer = packer
        self._episodes = _Episodes(section, vec.num_envs)
        self._section = section
        self._steps_by_itself = steps_by_itself

    def begin(self, stamp: WeightsStamp) -> None:
        action = self._actor.act(self.obs, stamp.version)
        self.actions.note(action)
        self._packer.before_step(self.obs, action)
        self.stamp, self.stepped_ns = stamp, time.monotonic_ns()
        self.vec.begin(action)

    def finish(self) -> np.ndarray:  # -> rows (count, row_size)
        entered_ns = time.monotonic_ns()
        step = self.vec.finish()
        if not self._steps_by_itself:  # else it steps since begin(): how long this took is not how long a step takes
            self._section.add("stepping_ns", time.monotonic_ns() - entered_ns)
        rows = self._packer.after_step(step)
        self._episodes.count(step)
        self.obs = step.obs
        return rows

    def forget(self) -> int:
        """The step that has begun came to nothing. -> env steps that are lost with it"""
        self._episodes.forget()
        return self._packer.forget()


class _Pace:
    """Waits for its turn and for room, says for how long, and notices the end."""

    def __init__(
        self,
        board: Board,
        section: Section,
        index: int,
        sender: Sender,
        life: Life,
        learning_starts: int,
        steps: int | None,
    ) -> None:
        self._board, self._section, self._index = board, section, index
        self._sender, self._life = sender, life
        # before the learner is up and says more, the random actions that it waits for may be taken
        self._permitted_at_start = learning_starts if steps is None else min(learning_starts, steps)

    def wait_for_turn(self) -> bool:
        """False when it is time to stop."""
        board = self._board
        while True:
            self._life.beat()
            if self._life.stopping():
                return False
            permitted = board.env_steps_permitted() or self._permitted_at_start
            if board.env_steps_taken() < permitted:
                return True
            time.sleep(_WAIT_S)

    def parked(self) -> bool:
        """Told to rest, so that others have its core."""
        return 0 < self._board.active_samplers() <= self._index

    def park(self) -> bool:
        """Until it is needed again; False when it is time to stop."""
        while self.parked():
            self._life.beat()
            if self._life.stopping():
                return False
            time.sleep(_PARKED_S)
        return True

    def send(self, rows: np.ndarray, stamp: Stamp, stepped_ns: int) -> bool:
        """Blocks while the ring is full, seen in ring_full_ns; False when it is time to stop."""
        if not self._sender.send(rows, stamp, stepped_ns):
            waiting_since = time.monotonic_ns()
            while not self._sender.send(rows, stamp, stepped_ns):
                self._life.beat()
                if self._life.stopping():
                    return False
                time.sleep(_WAIT_S)
            self._section.add("ring_full_ns", time.monotonic_ns() - waiting_since)
        if self._section.get("first_step_ns") == 0:
            self._section.set("first_step_ns", stepped_ns)
        self._section.add("env_steps", len(rows))
        return True


class _Episodes:
    """Returns and lengths of training episodes, kept on the board."""

    def __init__(self, section: Section, num_envs: int) -> None:
        self._section = section
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)

    def count(self, step: Step) -> None:
        if step.valid is None:
            self._returns += step.reward
            self._lengths += 1
            over = step.terminated | step.truncated
        else:
            self._returns += np.where(step.valid, step.reward, 0.0)
            self._lengths += step.valid
            over = (step.terminated | step.truncated) & step.valid
        if over.any():
            for env in np.flatnonzero(over):
                self._finish(int(env))

    def forget(self) -> None:
        """Episodes that a broken environment interrupted are not counted."""
        self._returns[:] = 0
        self._lengths[:] = 0

    def _finish(self, env: int) -> None:
        section, place = self._section, self._section.get("episodes") % RETURNS_KEPT
        section.returns[place] = self._returns[env]
        section.lengths[place] = self._lengths[env]
        section.add("episodes", 1)
        self._returns[env] = 0.0
        self._lengths[env] = 0
