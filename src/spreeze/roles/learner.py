"""The learner: the only role that needs torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch

from spreeze.algos.algorithm import Algorithm
from spreeze.algos.allocation import keep_freed_memory
from spreeze.algos.choice import choose_update
from spreeze.algos.denormals import flush_denormals
from spreeze.algos.kernel_limits import LEAST_CAPABILITY, why_not_for
from spreeze.board import Board, Life
from spreeze.config import OFF, RunConfig
from spreeze.experience.link import InTurn, Receiver
from spreeze.experience.packing import block_rows
from spreeze.experience.pool import PoolReceiver
from spreeze.learner.checkpoint import open_checkpoint
from spreeze.learner.graphs import Updates
from spreeze.learner.guard import make_guarded
from spreeze.learner.health import Health
from spreeze.learner.ingest import Ingest, Intake
from spreeze.learner.loop import LearnerLoop
from spreeze.learner.losses import Losses, halves_of
from spreeze.learner.pacing import Pacing, make_pacing
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.pool_replay import PoolIngest, PoolReplay
from spreeze.learner.published import Published
from spreeze.learner.publishing import Publishing
from spreeze.learner.restoring import restore
from spreeze.learner.rounds import Rounds
from spreeze.learner.saving import Saving
from spreeze.learner.two_places import make_split_ladder, make_two_places
from spreeze.replay import Replay
from spreeze.roles.job import Job
from spreeze.roles.links import LearnerLinks
from spreeze.roles.reporting import report_event
from spreeze.spec import Layout, layout_of
from spreeze.tuning.hardware import find_gpus
from spreeze.weights.policy_file import POLICY_FILE, save_policy

# samplers may be ahead of an exact ratio by this many of their steps: one on its way, one waiting
_LEAD_STEPS = 2
_NOTHING_YET = dict.fromkeys(("updates", "update_frames", "env_steps", "weights_version", "sampler_lives"), 0)


def run(job: Job, links: LearnerLinks, life: Life) -> None:
    config, say = job.config, partial(report_event, job)
    say("device", f"torch {torch.__version__} is loaded; updates are being made for {config.device}")
    layout = layout_of(job.env_spec)
    if words := compile_kernels(layout, config, job.next_batch_sizes):
        say("kernels", words)
    prepare_devices(config)
    parts = make_parts(layout, config, partial(say, "warning"), links.rows)
    say("updates", parts.reason)
    published = Published(parts.algorithm, parts.replay.norm)
    loop = make_loop(job, links, life, parts, published, say)
    life.ready()
    loop.work()
    if not (job.run_dir / POLICY_FILE).exists():  # a run too short for an evaluation leaves a policy as well
        published.renew(loop.updates)
        flat = published.average.cpu().numpy()
        save_policy(job.run_dir, job.policy, job.env_spec, flat, {"updates": loop.updates, "return_mean": None})


def make_loop(
    job: Job, links: LearnerLinks, life: Life, parts: Parts, published: Published, say: Callable[[str, str], None]
) -> LearnerLoop:
    """From the beginning, or from the checkpoint that the run goes on from."""
    config, board, warn = job.config, links.board, partial(say, "warning")
    rows_a_step = block_rows(int(config.envs_per_sampler), config.n_step)
    before = None if job.origin is None else open_checkpoint(job.origin.checkpoint)
    if before is not None:
        restore(before, parts.algorithm, parts.replay, parts.updates)
    done = _NOTHING_YET if before is None else before.counters
    saving = Saving(
        job.run_dir,
        parts.algorithm,
        parts.replay,
        counters=lambda: loop.counters() | {"sampler_lives": sampler_lives(loop, board)},
        every_s=None if config.deterministic else checkpoint_every_s(config),
        asked=lambda: board.section("supervisor").get("checkpoints_asked"),
        say=say,
        before=before,
    )
    # a run of rounds publishes the version of its checkpoint once more, as that version; others go on with the next
    version = done["weights_version"] - int(config.deterministic and done["updates"] > 0)
    losses = parts.algorithm.metrics.values_vector
    publishing = Publishing(links.weights, published.flat, warn, version, losses, published.renew)
    restores = config.on_not_finite == "restore" and not config.deterministic
    loop = (Rounds if config.deterministic else LearnerLoop)(
        config,
        board.section("learner"),
        board.section("supervisor"),
        life,
        pacing=choose_pacing(config, rows_a_step),
        ingest=make_intake(links.rows, parts.replay, rows_a_step, saving, done["env_steps"]),
        updates=parts.updates,
        publishing=publishing,
        losses=Losses(halves_of(parts.algorithm), board.section("learner")),
        saving=saving,
        health=Health(
            job.run_dir, parts.algorithm, parts.replay, lambda: publishing.checked_updates, restores, warn
        ),
        updates_before=done["updates"],
        frames_before=done["update_frames"],
    )  # fmt: skip
    if isinstance(loop, Rounds):
        assert isinstance(links.rows, InTurn), "resolve() allows rings alone"
        samplers, evaluator = board.sampler_sections(), board.section("evaluator")
        every = checkpoint_every_s(config)
        loop.begin(links.rows, samplers, evaluator, done["sampler_lives"], config.eval_every, every)
    return loop


def make_intake(
    receiver: Receiver, replay: Replay | PairedReplay, rows_a_step: int, saving: Saving, env_steps: int
) -> Intake:
    if isinstance(replay, PoolReplay):
        return PoolIngest(replay)
    return Ingest(receiver, replay, rows_a_step, saving.protect, env_steps)


def sampler_lives(loop: LearnerLoop, board: Board) -> int:
    """After which a run that goes on counts on, so that no sampler's seeds come again."""
    if isinstance(loop, Rounds):
        return loop.next_era
    return max(section.get("lives") for section in board.sampler_sections())


def checkpoint_every_s(config: RunConfig) -> float | None:
    return None if config.checkpoint_every == OFF else float(config.checkpoint_every)


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


def make_parts(
    layout: Layout, config: RunConfig, warn: Callable[[str], None], receiver: Receiver | None = None
) -> Parts:
    """`receiver`: where rows come from; a pool's is where they are drawn from as well."""
    if config.actor_device is not None:
        two = make_two_places(layout, config)
        return Parts(two.algorithm, two.replay, make_split_ladder(two, config), two.reason)
    device = torch.device(config.device)
    replay = make_replay(layout, config, device, receiver)
    choice = choose_update(layout, config, device)
    return Parts(choice.algorithm, replay, make_guarded(choice, replay, config, warn), choice.reason)


def make_replay(layout: Layout, config: RunConfig, device: torch.device, receiver: Receiver | None) -> Replay:
    if isinstance(receiver, PoolReceiver):
        return PoolReplay(layout, receiver, config.seed, config.reward_scale)
    return Replay(
        layout, int(config.replay_size), device, config.seed,
        normalize=config.observation_norm == "on", reward_scale=config.reward_scale,
    )  # fmt: skip


def compile_kernels(layout: Layout, config: RunConfig, next_batch_sizes: Sequence[int]) -> str | None:
    """Before this process touches a GPU. -> what was done, if there was anything to do."""
    gpus = {f"cuda:{gpu.index}": gpu for gpu in find_gpus()} if config.device != "cpu" else {}
    capability = gpus[config.device].capability if config.device in gpus else None
    whole = config.actor_device is None and config.compile == "on"
    if not whole or capability is None or capability < LEAST_CAPABILITY:
        return None
    if why_not_for(config.hidden, config.precision):
        return None
    torch.set_num_threads(1)  # no thread may be running when it forks
    try:
        from spreeze.algos.kernels.ahead import compile_ahead  # imports triton

        return compile_ahead(layout, config, capability, next_batch_sizes)
    except Exception as error:  # parts of Triton that change with its versions; the first launches compile as well
        return f"Triton kernels are compiled when they are first launched: {type(error).__name__}: {error}"


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
