"""The learner: the only role that needs torch."""

from __future__ import annotations

import torch

from spreeze.algos.allocation import keep_freed_memory
from spreeze.algos.choice import choose_update
from spreeze.algos.denormals import flush_denormals
from spreeze.board import Life
from spreeze.config import RunConfig
from spreeze.experience.packing import block_rows
from spreeze.learner.guard import make_guarded
from spreeze.learner.ingest import Ingest
from spreeze.learner.loop import LearnerLoop
from spreeze.learner.losses import Losses
from spreeze.learner.pacing import make_pacing
from spreeze.learner.publishing import Publishing
from spreeze.replay import Replay
from spreeze.roles.job import Job
from spreeze.roles.links import LearnerLinks
from spreeze.roles.reporting import report_event
from spreeze.spec import layout_of
from spreeze.weights.policy_file import POLICY_FILE, save_policy

# samplers may be ahead of an exact ratio by this many of their steps: one on its way, one waiting
_LEAD_STEPS = 2


def run(job: Job, links: LearnerLinks, life: Life) -> None:
    config, cells = job.config, links.board.section("learner")
    device = prepare_device(config)
    layout = layout_of(job.env_spec)
    replay = Replay(layout, config.replay_size, device, config.seed)
    choice = choose_update(layout, config, device)
    algorithm = choice.algorithm
    report_event(job, "updates", choice.reason)
    rows_a_step = block_rows(int(config.envs_per_sampler), config.n_step)
    batch_size = int(config.batch_size)
    cells.set("batch_size", batch_size)
    loop = LearnerLoop(
        config,
        cells,
        life,
        pacing=make_pacing(
            config.replay_ratio, batch_size, config.learning_starts,
            lead=_LEAD_STEPS * rows_a_step * int(config.samplers), steps=config.steps,
        ),
        ingest=Ingest(links.rows, replay, rows_a_step, device),
        updates=make_guarded(choice, replay, config, warn=lambda text: report_event(job, "warning", text)),
        publishing=Publishing(
            links.weights, algorithm.policy_flat(), warn=lambda text: report_event(job, "warning", text)
        ),
        losses=Losses(algorithm.metrics, cells),
    )  # fmt: skip
    life.ready()
    loop.work()
    loop.save(job.run_dir, algorithm.state())
    if not (job.run_dir / POLICY_FILE).exists():  # a run too short for an evaluation leaves a policy as well
        flat = algorithm.policy_flat().detach().cpu().numpy()
        save_policy(job.run_dir, job.policy, job.env_spec, flat, {"updates": loop.updates, "return_mean": None})


def prepare_device(config: RunConfig) -> torch.device:
    """Sets this process up for the updates of a resolved config."""
    device = torch.device(config.device)
    torch.set_num_threads(int(config.learner_threads))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    else:
        keep_freed_memory()
        flush_denormals()
    return device
