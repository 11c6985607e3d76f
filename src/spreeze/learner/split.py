"""Updates whose two halves are computed in two places at once.

    actor      propose k                      learn k  propose k+1                          learn k+1
                        a, a', penalty  dQ/da                     a, a', penalty      dQ/da
    critics    draw k             train k  advise k  draw k+1              train k+1  advise k+1        exact

    actor      propose k            learn k  propose k+1             learn k+1  propose k+2
                     a, a'...  dQ/da                a, a'...   dQ/da
    critics    draw k     advise k  train k  draw k+1     advise k+1  train k+1  draw k+2               pipelined

Exact: the same numbers as in one place. Where the actor learns in every update only the draws overlap; TD3's critics
train while the actor proposes for the turns in which it does not learn.

Pipelined: the critics advise before they train on the rows instead of after it, so that while they train on batch k the
actor learns from batch k and proposes for batch k+1. The one difference: dQ/da comes from the critics of one update
before. That is all the staleness there is: proposals are the newest actor's, targets are the newest critics', and
nothing is on its way between two calls of `run`, so whatever is saved there is whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import torch

from spreeze.algos.algorithm import Advice, Algorithm, Proposal
from spreeze.learner.crossing import Crossing
from spreeze.learner.graphs import bundle_size
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import Mark, Place, Work
from spreeze.spec import Batch

_QUEUED_RUNS = 2
_WARM_UPS = 3  # before capture, for libraries that set themselves up at first use


def learns(algorithm: Algorithm, turn: int) -> bool:
    """Whether the actor learns in this turn: in the last of a period."""
    return turn == algorithm.period - 1


class SplitUpdates:
    """Of one batch size. Several of them may share their places and their algorithm, and take turns."""

    def __init__(
        self,
        algorithm: Algorithm,
        replay: PairedReplay,
        batch_size: int,
        actor: Place,
        critics: Place,
        pipelined: bool,
        captured: bool = False,
    ) -> None:
        self._algorithm = algorithm
        self._replay = replay
        self.batch_size = batch_size
        self._pipelined = pipelined
        self.actor, self.critics = actor, critics
        dtype, action_size = algorithm.policy_flat().dtype, algorithm.policy_spec.action_size
        actions = (batch_size, action_size)
        shapes = {"next_action": actions, "next_penalty": (batch_size,), "action": actions}
        if algorithm.policy_spec.kind != "tanh_gaussian":
            del shapes["next_penalty"]
        self.proposals = Crossing(actor, critics, shapes, dtype)
        self.advice = Crossing(critics, actor, {"dq_daction": actions}, dtype)
        self._actor_half = ActorHalf(algorithm, replay, batch_size, self.proposals, self.advice)
        self._critic_half = CriticHalf(algorithm, replay, batch_size, self.proposals, self.advice)
        self.turn = 0
        self._bundle = bundle_size(batch_size, algorithm.period)
        self._queued: deque[tuple[Mark, Mark]] = deque()
        self._works = [self._plain_works(turn) for turn in range(algorithm.period)]
        if captured:
            self._capture()

    @property
    def bytes_crossed(self) -> int:
        return self.proposals.bytes + self.advice.bytes

    def works_of(self, turn: int) -> Works:
        """The pieces themselves, for whoever wants to know what each costs by itself."""
        return self._works[turn]

    def go_on_from(self, updates: int) -> None:
        self.turn = updates % self._algorithm.period

    def run(self, most: int) -> int:
        """Submits up to a bundle of updates. On CPUs they are done when this returns; on GPUs they are queued in front
        of whatever the devices are given next."""
        if len(self._queued) >= _QUEUED_RUNS:
            for mark in self._queued.popleft():
                mark.wait()
        done = min(most, self._bundle)
        self.actor.begin()
        self.critics.begin()
        for _ in range(done):
            self._submit(self.turn)
            self.turn = (self.turn + 1) % self._algorithm.period
        self._queued.append((self.critics.finish(), self.actor.finish()))
        return done

    def wait(self) -> None:
        for place in (self.critics, self.actor):
            place.wait()

    def close(self) -> None:
        for place in (self.critics, self.actor):
            place.close()

    def _submit(self, turn: int) -> None:
        works, learning = self._works[turn], learns(self._algorithm, turn)
        proposed = self.actor.submit(works.propose, self.proposals.free_to_pack)
        self.critics.submit(works.draw)
        arrived = self.proposals.cross(proposed, self._actor_half.tensors_of(learning))
        self.proposals.note_taken(self.critics.submit(self.proposals.take, (arrived,)))
        if learning and self._pipelined:
            self._submit_advice(works)
        self.critics.submit(works.train)
        if learning and not self._pipelined:
            self._submit_advice(works)

    def _submit_advice(self, works: Works) -> None:
        advised = self.critics.submit(works.advise, self.advice.free_to_pack)
        arrived = self.advice.cross(advised, 1)
        self.advice.note_taken(self.actor.submit(self.advice.take, (arrived,)))
        self.actor.submit(works.learn)

    def _plain_works(self, turn: int) -> Works:
        actor, critics = self._actor_half, self._critic_half
        return Works(
            propose=partial(actor.propose, turn),
            learn=actor.learn,
            draw=critics.draw,
            train=partial(critics.train, learns(self._algorithm, turn)),
            advise=critics.advise,
        )

    def _capture(self) -> None:
        """Each piece of work becomes a graph of its own device; what crosses stays between the graphs."""
        algorithm, replay = self._algorithm, self._replay
        before = {name: value.clone() for name, value in algorithm.state().items()}
        draws = replay.generator_states()
        for turn in range(_WARM_UPS * algorithm.period):
            self.actor.begin()
            self.critics.begin()
            self._submit(turn % algorithm.period)
        self.wait()
        self._works = [self._captured_works(turn) for turn in range(algorithm.period)]
        algorithm.load(before)
        replay.set_generator_states(draws)

    def _captured_works(self, turn: int) -> Works:
        """In the order of an update, since each piece reads what the one before it left at a fixed address."""
        plain, learning = self._works[turn], learns(self._algorithm, turn)
        noise = [self._algorithm.generator] if self.actor.device.type == "cuda" else []
        return Works(
            propose=self.actor.capture(plain.propose, [*noise, *self._replay.actor.torch_generators()]),
            draw=self.critics.capture(plain.draw, self._replay.critics.torch_generators()),
            train=self.critics.capture(plain.train, []),
            advise=self.critics.capture(plain.advise, []) if learning else plain.advise,
            learn=self.actor.capture(plain.learn, []) if learning else plain.learn,
        )


class Works:
    """The pieces of one turn's update."""

    def __init__(self, propose: Work, learn: Work, draw: Work, train: Work, advise: Work) -> None:
        self.propose, self.learn = propose, learn
        self.draw, self.train, self.advise = draw, train, advise


class ActorHalf:
    """All of this runs in the actor's place."""

    def __init__(
        self, algorithm: Algorithm, replay: PairedReplay, batch_size: int, proposals: Crossing, advice: Crossing
    ) -> None:
        self._algorithm = algorithm
        self._sample: Callable[[], Batch] = partial(replay.actor.sample, batch_size)
        self._proposals = proposals
        self._advice = advice
        self._proposal: Proposal | None = None
        self._no_q = torch.zeros((), dtype=algorithm.policy_flat().dtype, device=algorithm.policy_flat().device)

    def tensors_of(self, learning: bool) -> int:
        """How many of the proposal's tensors cross."""
        return len(self._proposals.inbox) - (0 if learning else 1)

    def propose(self, turn: int) -> None:
        proposal = self._algorithm.propose(self._sample(), turn)
        crossing = (proposal.next_action, proposal.next_penalty, proposal.action)
        self._proposals.pack(*(tensor for tensor in crossing if tensor is not None))
        self._proposal = proposal

    def learn(self) -> None:
        assert self._proposal is not None
        self._algorithm.actor_step(self._proposal, Advice(self._advice.inbox["dq_daction"], self._no_q))


class CriticHalf:
    """All of this runs in the critics' place."""

    def __init__(
        self, algorithm: Algorithm, replay: PairedReplay, batch_size: int, proposals: Crossing, advice: Crossing
    ) -> None:
        self._algorithm = algorithm
        self._sample: Callable[[], Batch] = partial(replay.critics.sample, batch_size)
        self._proposals = proposals
        self._advice = advice
        self._batch: Batch | None = None

    def draw(self) -> None:
        self._batch = self._sample()

    def train(self, learning: bool) -> None:
        assert self._batch is not None
        self._algorithm.train_critics(self._batch, self._proposal(learning))

    def advise(self) -> None:
        assert self._batch is not None
        advice = self._algorithm.advise(self._batch, self._proposal(learning=True))
        assert advice is not None
        self._advice.pack(advice.dq_daction)

    def _proposal(self, learning: bool) -> Proposal:
        inbox = self._proposals.inbox
        return Proposal(inbox["next_action"], inbox["action"] if learning else None, inbox.get("next_penalty"))
