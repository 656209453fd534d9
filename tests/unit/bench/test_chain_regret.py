"""A served kernel loses so much, with and without the luck of the fastest."""

from random import Random
from statistics import fmean

import pytest

from bench.crowd.chain_regret import Spread, Truth, interval


def test_without_noise_both_regrets_are_how_much_longer_a_kernel_takes() -> None:
    regret = Truth(all={"fast": 2.0, "slow": 3.0}).regret("slow")
    assert (regret.fresh, regret.measured) == (0.5, 0.5)


def test_the_luck_of_the_fastest_is_no_part_of_a_fresh_regret() -> None:
    """All kernels are equally fast; each was timed with 10 % of noise."""
    chance = Random(1)
    names = [f"kernel {number}" for number in range(30)]
    found = []
    for _ in range(300):
        one, other = ({name: 1 + chance.gauss(0, 0.1) for name in names} for _ in range(2))
        mean = {name: (one[name] + other[name]) / 2 for name in names}
        found.append(Truth(all=mean, halves=(one, other)).regret(names[0]))
    assert fmean(each.fresh for each in found) == pytest.approx(0, abs=0.02)
    assert fmean(each.measured for each in found) > 0.1


def test_only_candidates_of_every_half_are_known() -> None:
    times = {"a": 1.0, "b": 2.0}
    assert Truth(all=times, halves=(times, {"a": 1.0})).known == {"a"}


def test_an_interval_is_as_wide_as_what_was_held_out_differs() -> None:
    """Ten answers of one class are no ten classes."""
    low, high = interval([[0.0] * 10, [1.0] * 10])
    assert (low, high) == (0.0, 1.0)
    assert interval([[0.5] * 10, [0.5] * 10]) == (0.5, 0.5)


def test_a_spread_of_one_regret_is_that_regret() -> None:
    assert Spread.of([0.2]) == Spread(mean=0.2, median=0.2, p95=0.2)
