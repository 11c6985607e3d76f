"""The two policies that go out as one vector."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.learner.published import Published  # noqa: E402
from spreeze.weights.link import WeightsStamp  # noqa: E402
from spreeze.weights.published import ACTOR, AVERAGE, PolicyFollower  # noqa: E402

CONFIG = RunConfig(hidden=(4,), target_entropy=-1.0, policy_average=0.5)


class Vector:
    """A follower of what stands in a learner's vector."""

    def __init__(self, flat: torch.Tensor) -> None:
        self._flat = flat

    def version(self) -> int:
        return 1

    def load(self, into: np.ndarray) -> WeightsStamp:
        into[:] = self._flat.numpy()
        return WeightsStamp(1, 0, 0)


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
def test_samplers_get_the_actor_and_all_others_its_average(name: str) -> None:
    algorithm = make_algorithm(name, 3, 1, CONFIG)
    published = Published(algorithm, norm=None)
    actor, count = algorithm.policy_flat().detach(), algorithm.policy_spec.weight_count
    first = actor.clone()
    published.renew(100)
    actor.add_(1.0)
    published.renew(200)  # 100 further updates, and the average's memory is as long
    got = {}
    for which in (ACTOR, AVERAGE):
        got[which] = np.zeros(count, np.float32)
        PolicyFollower(Vector(published.flat), count, which).load(got[which])
    np.testing.assert_array_equal(got[ACTOR], (first + 1.0).numpy())
    np.testing.assert_allclose(got[AVERAGE] - first.numpy(), 1.0 - np.exp(-1.0), rtol=1e-4)
    np.testing.assert_array_equal(published.average.numpy(), got[AVERAGE])
