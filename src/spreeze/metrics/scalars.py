"""What of a record is a curve, for TensorBoard and Weights & Biases alike: numbers under the record's own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVALUATION_PREFIX = "eval/"
_EVALUATION_CURVES = ("return_mean", "return_std", "return_min", "return_max", "length_mean")


def scalars_of(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number of the record; an object of counts (restarts) as their sum."""
    return {prefix + name: number for name, value in record.items() if (number := _scalar(value)) is not None}


def evaluation_curves(record: Mapping[str, Any]) -> dict[str, Any]:
    """Of a line of eval.jsonl."""
    return {key: record[key] for key in _EVALUATION_CURVES if key in record}


def _scalar(value: Any) -> float | None:
    if isinstance(value, Mapping):
        counts = [_scalar(count) for count in value.values()]
        return None if None in counts else float(sum(count for count in counts if count is not None))
    return float(value) if isinstance(value, (int, float)) else None
