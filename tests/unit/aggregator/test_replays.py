"""Copied samples are found; what honest clocks make alike is not."""

from random import Random

import pytest

from services.aggregator.reported_times import REPLAYED, STILL, Times, replayed, still

Pair = tuple[Times, Times]


def lease(seed: int, candidates: int, step: float, noise: float) -> list[Pair]:
    """Samples near 1 with a deviation of `noise`, on a clock of this `step`."""
    chance = Random(seed)

    def samples() -> Times:
        taken = (1 + abs(chance.gauss(0, noise)) for _ in range(3))
        return tuple(round(time / step) * step for time in taken)

    return [(samples(), samples()) for _ in range(candidates)]


def test_a_copied_lease_is_found() -> None:
    assert replayed(lease(1, candidates=8, step=1e-6, noise=0.01))


def test_a_few_candidates_alike_are_no_evidence() -> None:
    assert not replayed(lease(1, candidates=3, step=1e-6, noise=0.01))


def test_the_same_number_again_and_again_is_no_evidence() -> None:
    assert not replayed([((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))] * 16)


@pytest.mark.parametrize("seed", range(20))
def test_honest_leases_on_a_coarse_clock_are_neither_still_nor_replays(seed: int) -> None:
    """Even if every number of a coarse clock coincided, there would not be enough of them."""
    found = lease(seed, candidates=16, step=0.01, noise=0.004)
    assert not replayed(found)
    assert not still(found)


def test_a_lease_in_which_nothing_varies_is_found() -> None:
    assert still([((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))] * 6)
    assert not still([((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))] * 5)


def test_the_rates_that_the_comments_state() -> None:
    assert pytest.approx(1 / 16_777, rel=0.01) == 1000 * 2.0**-REPLAYED
    assert pytest.approx(1 / 5_220, rel=0.01) == 0.7**STILL
