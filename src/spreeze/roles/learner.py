"""The learner: the only role that needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from spreeze.algos.algorithm import Algorithm
from spreeze.algos.allocation import keep_freed_memory
from spreeze.algos.choice import choose_update
from spreeze.algos.denormals import flush_denormals
from spreeze.board import Life
from spreeze.config import RunConfig
from spreeze.experience.packing import block_rows
from spreeze.experience.pool import PoolReceiver
from spreeze.learner.graphs import Updates
from spreeze.learner.guard import make_guarded
from spreeze.learner.ingest import Ingest
from spreeze.learner.loop import LearnerLoop
from spreeze.learner.losses import Losses, halves_of
from spreeze.learner.pacing import Pacing, make_pacing
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.pool_replay import PoolIngest, PoolReplay
from spreeze.learner.publishing import Publishing
from spreeze.learner.two_places import make_split_updates, make_two_places
from spreeze.replay import Replay
from spreeze.roles.job import Job
from spreeze.roles.links import LearnerLinks
from spreeze.roles.reporting import report_event
from spreeze.spec import Layout, layout_of
from spreeze.weights.policy_file import POLICY_FILE, save_policy

# samplers may be ahead of an exact ratio by this many of their steps: one on its way, one waiting
_LEAD_STEPS = 2


def run(job: Job, links: LearnerLinks, life: Life) -> None:
    config, cells = job.config, links.board.section("learner")
    prepare_devices(config)
    layout = layout_of(job.env_spec)
    pool = PoolReplay(layout, links.rows, config.seed) if isinstance(links.rows, PoolReceiver) else None
    parts = make_parts(layout, config, lambda text: report_event(job, "warning", text), pool)
    algorithm = parts.algorithm
    report_event(job, "updates", parts.reason)
    rows_a_step = block_rows(int(config.envs_per_sampler), config.n_step)
    loop = LearnerLoop(
        config,
        cells,
        links.board.section("supervisor"),
        life,
        pacing=choose_pacing(config, rows_a_step),
        ingest=Ingest(links.rows, parts.replay, rows_a_step) if pool is None else PoolIngest(pool),
        updates=parts.updates,
        publishing=Publishing(
            links.weights, algorithm.policy_flat(), warn=lambda text: report_event(job, "warning", text)
        ),
        losses=Losses(halves_of(algorithm), cells),
    )  # fmt: skip
    life.ready()
    loop.work()
    loop.save(job.run_dir, algorithm.state())
    if not (job.run_dir / POLICY_FILE).exists():  # a run too short for an evaluation leaves a policy as well
        flat = algorithm.policy_flat().detach().cpu().numpy()
        save_policy(job.run_dir, job.policy, job.env_spec, flat, {"updates": loop.updates, "return_mean": None})


def choose_pacing(config: RunConfig, rows_a_step: int) -> Pacing:
    """In turn (`--schedule synchronous`), samplers are never ahead of replay, so that either they work or the learner
    does; without a ratio one update an env step, as learners that work in turn have it."""
    ratio, lead = config.replay_ratio, _LEAD_STEPS * rows_a_step * int(config.samplers)
    if config.schedule == "synchronous":
        ratio, lead = float(config.batch_size) if ratio == "free" else ratio, 0
    return make_pacing(ratio, config.learning_starts, lead, config.steps)


class Parts(NamedTuple):
    """What updates are made of, in one place or in two."""

    algorithm: Algorithm
    replay: Replay | PairedReplay
    updates: Updates
    reason: str  # which code computes them, and why


def make_parts(layout: Layout, config: RunConfig, warn: Callable[[str], None], pool: PoolReplay | None = None) -> Parts:
    """`pool`: the replay, where samplers write it."""
    if config.actor_device is not None:
        two = make_two_places(layout, config)
        return Parts(two.algorithm, two.replay, make_split_updates(two, config), two.reason)
    device = torch.device(config.device)
    replay = pool or Replay(layout, config.replay_size, device, config.seed)
    choice = choose_update(layout, config, device)
    return Parts(choice.algorithm, replay, make_guarded(choice, replay, config, warn), choice.reason)


def prepare_devices(config: RunConfig) -> None:
    """Sets this process up for the updates of a resolved config."""
    names = {config.device, config.actor_device or config.device}
    torch.set_num_threads(int(config.learner_threads))
    if config.device != "cpu":
        torch.cuda.set_device(config.device)
    if names != {"cpu"}:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    if "cpu" in names:
        keep_freed_memory()
        flush_denormals()
