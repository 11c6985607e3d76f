"""The learner: the only role that needs torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from spreeze.algos.algorithm import Algorithm
from spreeze.algos.allocation import keep_freed_memory
from spreeze.algos.choice import choose_update
from spreeze.algos.denormals import flush_denormals
from spreeze.board import Life
from spreeze.config import OFF, RunConfig
from spreeze.experience.link import InTurn
from spreeze.experience.packing import block_rows
from spreeze.experience.pool import PoolReceiver
from spreeze.learner.checkpoint import open_checkpoint
from spreeze.learner.graphs import Updates
from spreeze.learner.guard import make_guarded
from spreeze.learner.health import Health
from spreeze.learner.ingest import Ingest
from spreeze.learner.loop import LearnerLoop
from spreeze.learner.losses import Losses, halves_of
from spreeze.learner.pacing import Pacing, make_pacing
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.pool_replay import PoolIngest, PoolReplay
from spreeze.learner.publishing import Publishing
from spreeze.learner.restoring import restore
from spreeze.learner.rounds import Rounds
from spreeze.learner.saving import Saving
from spreeze.learner.two_places import make_split_ladder, make_two_places
from spreeze.observation_norm import FoldedPolicy
from spreeze.replay import Replay
from spreeze.roles.job import Job
from spreeze.roles.links import LearnerLinks
from spreeze.roles.reporting import report_event
from spreeze.spec import Layout, layout_of
from spreeze.weights.policy_file import POLICY_FILE, save_policy

# samplers may be ahead of an exact ratio by this many of their steps: one on its way, one waiting
_LEAD_STEPS = 2
_NOTHING_YET = dict.fromkeys(("updates", "update_frames", "env_steps", "weights_version", "sampler_lives"), 0)


def run(job: Job, links: LearnerLinks, life: Life) -> None:
    config, cells = job.config, links.board.section("learner")

    def warn(text: str) -> None:
        report_event(job, "warning", text)

    prepare_devices(config)
    report_event(job, "device", f"torch {torch.__version__} is loaded; updates are being made for {config.device}")
    layout = layout_of(job.env_spec)
    pool = None
    if isinstance(links.rows, PoolReceiver):
        pool = PoolReplay(layout, links.rows, config.seed, config.reward_scale)
    parts = make_parts(layout, config, warn, pool)
    algorithm = parts.algorithm
    report_event(job, "updates", parts.reason)
    rows_a_step = block_rows(int(config.envs_per_sampler), config.n_step)
    before = None if job.origin is None else open_checkpoint(job.origin.checkpoint)
    if before is not None:
        restore(before, algorithm, parts.replay, parts.updates)
    done = _NOTHING_YET if before is None else before.counters

    samplers = links.board.sampler_sections()

    def counters() -> dict[str, int]:
        return {
            "updates": loop.updates,
            "update_frames": loop.update_frames,
            "env_steps": ingest.env_steps,
            "weights_version": publishing.version,
            "sampler_lives": loop.next_era
            if isinstance(loop, Rounds)
            else max(lives.get("lives") for lives in samplers),
        }

    checkpoint_every_s = None if config.checkpoint_every == OFF else float(config.checkpoint_every)
    saving = Saving(
        job.run_dir,
        algorithm,
        parts.replay,
        counters,
        every_s=None if config.deterministic else checkpoint_every_s,
        asked=lambda: links.board.section("supervisor").get("checkpoints_asked"),
        say=partial(report_event, job),
        before=before,
    )
    ingest = (
        PoolIngest(pool) if pool else Ingest(links.rows, parts.replay, rows_a_step, saving.protect, done["env_steps"])
    )
    norm = parts.replay.norm
    folded = None if norm is None else FoldedPolicy(algorithm.policy_flat(), algorithm.policy_spec, norm)
    policy_flat = algorithm.policy_flat() if folded is None else folded.flat
    # a run of rounds publishes the version of its checkpoint once more, as that version; others go on with the next
    version = done["weights_version"] - int(config.deterministic and done["updates"] > 0)
    publishing = Publishing(
        links.weights, policy_flat, warn, version,
        losses=algorithm.metrics.values_vector, renew=None if folded is None else folded.renew,
    )  # fmt: skip
    restores = config.on_not_finite == "restore" and not config.deterministic
    loop = (Rounds if config.deterministic else LearnerLoop)(
        config,
        cells,
        links.board.section("supervisor"),
        life,
        pacing=choose_pacing(config, rows_a_step),
        ingest=ingest,
        updates=parts.updates,
        publishing=publishing,
        losses=Losses(halves_of(algorithm), cells),
        saving=saving,
        health=Health(job.run_dir, algorithm, parts.replay, lambda: publishing.checked_updates, restores, warn),
        updates_before=done["updates"],
        frames_before=done["update_frames"],
    )  # fmt: skip
    if isinstance(loop, Rounds):
        assert isinstance(links.rows, InTurn), "resolve() allows rings alone"
        evaluator = links.board.section("evaluator")
        loop.begin(links.rows, samplers, evaluator, done["sampler_lives"], config.eval_every, checkpoint_every_s)
    life.ready()
    loop.work()
    if not (job.run_dir / POLICY_FILE).exists():  # a run too short for an evaluation leaves a policy as well
        if folded is not None:
            folded.renew()
        flat = policy_flat.detach().cpu().numpy()
        save_policy(job.run_dir, job.policy, job.env_spec, flat, {"updates": loop.updates, "return_mean": None})


def choose_pacing(config: RunConfig, rows_a_step: int) -> Pacing:
    """In turn (`--schedule synchronous`), samplers are never ahead of replay, so that either they work or the learner
    does; without a ratio one update an env step, as learners that work in turn have it; in rounds (`--deterministic`)
    as well."""
    ratio, lead = config.replay_ratio, _LEAD_STEPS * rows_a_step * int(config.samplers)
    if config.deterministic and ratio == "free":
        ratio = float(config.batch_size)
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
        return Parts(two.algorithm, two.replay, make_split_ladder(two, config), two.reason)
    device = torch.device(config.device)
    replay = pool or Replay(
        layout, config.replay_size, device, config.seed,
        normalize=config.observation_norm == "on", reward_scale=config.reward_scale,
    )  # fmt: skip
    choice = choose_update(layout, config, device)
    return Parts(choice.algorithm, replay, make_guarded(choice, replay, config, warn), choice.reason)


def prepare_devices(config: RunConfig) -> None:
    """Sets this process up for the updates of a resolved config."""
    names = {config.device, config.actor_device or config.device}
    if config.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS reads it when it is first used
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(int(config.learner_threads))
    if config.device != "cpu":
        torch.cuda.set_device(config.device)
    if names != {"cpu"}:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    if "cpu" in names:
        keep_freed_memory()
        flush_denormals()
