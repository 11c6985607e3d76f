"""A publisher process of the weights contract: every vector holds its version and nothing else. Its argument is JSON:
way, wiring, count, first and last version."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from weights_ways import WAYS

from spreeze.weights.link import WeightsStamp


def main(told: dict[str, Any]) -> None:
    publisher = WAYS[told["way"]].open(told["wiring"], told["count"]).publisher()
    for version in range(told["first"], told["last"] + 1):
        vector = np.full(told["count"], version, np.float32)
        publisher.publish(vector, WeightsStamp(version, 10 * version, 100 * version))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
