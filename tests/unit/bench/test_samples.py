"""Figures of samples, and which processor time is whose."""

import pytest

from bench.busy import CpuUsage
from bench.samples import percentile


def test_a_percentile_lies_between_its_neighbours() -> None:
    samples = [float(n) for n in range(1, 102)]
    assert percentile(samples, 50) == pytest.approx(51)
    assert percentile(samples, 99) == pytest.approx(100)


def test_what_others_did_leaves_out_what_ours_did() -> None:
    before = CpuUsage(at_s=10, all_s=100, own_s={(1, 0.0): 5.0})
    after = CpuUsage(at_s=12, all_s=103, own_s={(1, 0.0): 6.0, (2, 11.0): 1.0})
    assert after.others_since(before) == pytest.approx(0.5)
