"""Which version of each half the other half's work was made with: counted by networks that only count."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from spreeze.algos.algorithm import Advice, Proposal
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import CpuPlace
from spreeze.learner.split import SplitUpdates
from spreeze.spec import Layout
from spreeze.weights.numpy_policy import PolicySpec

LAYOUT, BATCH, UPDATES = Layout(2, 1), 4, 24


class Counting:
    """Its tensors carry versions: how many times the actor, or the critics, had learned when they were made. Notes, for
    each time that a half learned, (its own version, the version that the other half's tensor carried)."""

    policy_spec = PolicySpec("tanh", 2, 1, (4,))

    def __init__(self, period: int) -> None:
        self.period = period
        self.generator = torch.Generator()
        self.actor_version, self.critics_version = 0, 0
        self.actor_learned: list[tuple[int, int]] = []
        self.critics_learned: list[tuple[int, int]] = []
        self.advised_for: list[tuple[int, int]] = []  # (critics' version, version of the proposed actions)

    def policy_flat(self) -> torch.Tensor:
        return torch.zeros(1)

    def _actions(self) -> torch.Tensor:
        return torch.full((BATCH, 1), float(self.actor_version))

    def propose(self, batch: Any, turn: int) -> Proposal:
        return Proposal(self._actions(), self._actions() if turn == self.period - 1 else None)

    def train_critics(self, batch: Any, proposal: Proposal) -> None:
        self.critics_learned.append((self.critics_version, int(proposal.next_action[0])))
        self.critics_version += 1

    def advise(self, batch: Any, proposal: Proposal) -> Advice:
        self.advised_for.append((self.critics_version, int(proposal.action[0])))
        return Advice(torch.full((BATCH, 1), float(self.critics_version)), torch.zeros(()))

    def actor_step(self, proposal: Proposal, advice: Advice) -> None:
        self.actor_learned.append((self.actor_version, int(advice.dq_daction[0])))
        self.actor_version += 1


def run(period: int, pipelined: bool, chunk: int) -> Counting:
    counting: Any = Counting(period)
    replay = PairedReplay(LAYOUT, 50, "cpu", "cpu")
    replay.extend(torch.zeros(50, LAYOUT.row_size))
    updates = SplitUpdates(counting, replay, BATCH, CpuPlace("actor"), CpuPlace("critics"), pipelined)
    done = 0
    while done < UPDATES:
        done += updates.run(min(chunk, UPDATES - done))
    updates.close()
    return counting


@pytest.mark.parametrize("chunk", [1, 5, UPDATES])
@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("pipelined", [False, True], ids=["exact", "pipelined"])
def test_the_advice_is_one_update_old_when_pipelined_and_nothing_else_is(
    period: int, pipelined: bool, chunk: int
) -> None:
    counted = run(period, pipelined, chunk)
    # update u (from 0) finds critics of version u; the actor learns last in a period, at version u // period
    behind = 1 if pipelined else 0
    learning = [update for update in range(UPDATES) if update % period == period - 1]
    assert counted.actor_learned == [(u // period, u + 1 - behind) for u in learning]
    assert counted.critics_learned == [(u, u // period) for u in range(UPDATES)]  # proposals are the newest actor's
    assert counted.advised_for == [(u + 1 - behind, u // period) for u in learning]
