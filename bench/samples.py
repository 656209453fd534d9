"""Sums of many samples in one number."""

from collections.abc import Sequence
from statistics import quantiles


def percentile(samples: Sequence[float], percent: int) -> float:
    """Between neighbours by proportion; needs two samples."""
    return quantiles(samples, n=100, method="inclusive")[percent - 1]
