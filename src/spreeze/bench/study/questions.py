"""What an ablation asks: `--what NAME`. A question is a line of QUESTIONS; its first variant is what the others are
compared with. A variant is flags of `spreeze train` over those of the whole bench."""

from __future__ import annotations

from typing import Any, NamedTuple

# instead of a value of --replay-ratio: what the first variant's run with the same seed came to
RATIO_OF_THE_FIRST = "of the first variant"
_SELDOM_S = 86_400  # one evaluation at the start, and none after it


class Variant(NamedTuple):
    name: str
    flags: dict[str, Any]


class Question(NamedTuple):
    asks: str
    variants: tuple[Variant, ...]


AS_BUILT = Variant("as built", {})
IN_TURN = Variant("in turn, same ratio", {"schedule": "synchronous", "replay_ratio": RATIO_OF_THE_FIRST})
QUESTIONS = {
    "components": Question("what is lost when one component is switched off, all others as built", (
        AS_BUILT,
        IN_TURN,
        Variant("in turn, an update a step", {"schedule": "synchronous"}),
        Variant("queue for shared memory", {"experience": "queue"}),
        Variant("weights by memory", {"weights": "memory"}),
        Variant("one sampler", {"samplers": 1}),
        Variant("one sampler, queue", {"samplers": 1, "experience": "queue"}),
        Variant("small batch (64)", {"batch_size": 64}),
        Variant("large batch (1024)", {"batch_size": 1024}),
        Variant("plain updates", {"compile": "off"}),
        Variant("no adaptation", {"adapt": "off"}),
        Variant("no evaluation", {"eval_every": _SELDOM_S}),
        Variant("with a live picture", {"visualize": "web"}),
    )),
    "experience": Question("which way rows take to the learner", (
        Variant("ring", {}), *(Variant(way, {"experience": way}) for way in ("pool", "queue", "pipe")),
    )),
    "weights": Question("which way weights take to the samplers", (
        Variant("ssd", {}), Variant("memory", {"weights": "memory"}),
    )),
    "schedule": Question("sampling and updating at once, or in turn", (AS_BUILT, IN_TURN)),
    "adaptation": Question("a run that adapts to the machine, one that stays as it starts, and other ways to search", (
        Variant("adapting, nothing remembered", {"retune": True}), Variant("as it starts", {"adapt": "off"}),
        Variant("the paper's enumeration", {"adapt": "enumerate"}), Variant("Optuna", {"adapt": "optuna"}),
    )),
    "learning": Question("which algorithm, how far a row looks ahead, and each piece for stability", (
        Variant("sac", {}), Variant("td3", {"algo": "td3"}), Variant("ddpg", {"algo": "ddpg"}),
        Variant("sac, 3 steps", {"n_step": 3}),
        Variant("sac, layer norm in the critics", {"critic_norm": "layer"}),
        Variant("sac, normalized observations", {"observation_norm": "on"}),
        Variant("sac, rewards x 0.1", {"reward_scale": 0.1}),
    )),
    "samplers": Question("how many environments explore, and how widely (TD3's noise spreads over them)", tuple(
        Variant(f"{envs} envs, noise {noise:g}", {
            "algo": "td3", "samplers": 1, "envs_per_sampler": envs, "exploration_noise": noise,
            "replay_ratio": 64, "batch_size": 64,  # one update an env step: what is learned from as much data
        })
        for envs in (1, 8, 32) for noise in (0.1, 0.2, 0.5)
    )),
    "placement": Question("actor and critics on one device or on two", (
        Variant("one device", {"device": "cuda:0"}),
        Variant("two, exact", {"actor_device": "cuda:1", "critic_device": "cuda:0", "split_mode": "exact"}),
        Variant("two, pipelined", {"actor_device": "cuda:1", "critic_device": "cuda:0", "split_mode": "pipelined"}),
    )),
}  # fmt: skip
