"""Attackers who come first and call the best kernels slow bury none of them for long."""

from statistics import fmean

import pytest

from bench.crowd.ambush import ALL_AT_ONCE, ATTACKERS, AmbushCase, ambushed

SEEDS = range(1, 9)


@pytest.mark.parametrize("at_once", [1, ALL_AT_ONCE])
def test_four_networks_of_twenty_that_came_first_leave_honest_voters_a_good_kernel(
    at_once: int,
) -> None:
    """Pages lost 5.6 and 5.8 % where what one honest voter had found was measured no sooner than
    anything else: three honest ones never met at one kernel."""
    case = AmbushCase(attackers=ATTACKERS, at_once=at_once, said_to_fail=0)
    assert fmean(ambushed(case, seed).regret for seed in SEEDS) <= 0.03
