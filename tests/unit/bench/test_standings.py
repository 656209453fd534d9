"""A contest of wasm kernels says something of the limit."""

from unittest.mock import sentinel

import pytest

from bench.kernels.standings import LIMITS, Standings, WasmStanding


def reaching(gflops: float, *, fuses: bool) -> WasmStanding:
    return WasmStanding(
        best_ns=1.0, median_ns=1.0, slow_page_ns=1.0, flops=int(gflops), fuses=fuses
    )


@pytest.mark.parametrize(("fuses", "share"), [(True, 60 / 120), (False, 60 / 80)])
def test_a_kernel_is_held_to_the_limit_of_its_own_kind(fuses: bool, share: float) -> None:
    found = {
        name: reaching(gflops, fuses=both)
        for name, gflops, both in zip(LIMITS, (120, 80), (True, False), strict=True)
    }
    standings = Standings(contest=sentinel.contest, found=found)
    assert standings.share_of_limit(reaching(60, fuses=fuses)) == pytest.approx(share)
