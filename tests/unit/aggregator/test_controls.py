"""Hidden controls: how often they wrong the honest and find the attackers, computed exactly."""

from math import comb, exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.simulate.conduct import CLAIM, DISTURBED, LONGER
from kernelzoo.domain.trust import PROVEN, RELEASING, recheck_probability
from services.aggregator.challenge import Preferences, passes
from services.aggregator.reported_times import (
    AGREEING,
    CONTRADICTED_BY,
    FASTER,
    KNOWN_BY,
    SLOWER,
    Known,
    PeerTime,
    consistent,
    known_time,
    off,
)


def peers(*times: float, network: str | None = None) -> list[PeerTime]:
    return [
        PeerTime(network=network if network is not None else str(place), relative_time=time)
        for place, time in enumerate(times)
    ]


def wronged() -> float:
    """Probability that an honest device fails a control: disturbed, by more than `SLOWER`."""
    return DISTURBED * exp(-SLOWER / LONGER)


def passing(known: float, most: float = 2.0) -> float:
    """Probability that a time made up evenly between `CLAIM` and `most` is not off, where the class
    is certain."""
    low, high = max(CLAIM, known * (1 - FASTER)), min(most, known * (1 + SLOWER))
    return max(0.0, high - low) / (most - CLAIM)


def test_an_honest_device_fails_four_of_a_thousand_controls() -> None:
    assert wronged() == pytest.approx(0.0041, abs=0.0001)


def test_in_a_hundred_leases_an_honest_device_fails_once_in_twenty() -> None:
    passes = 1.0
    for lease in range(100):
        passes *= 1 - recheck_probability(lease) * wronged()
    assert 1 - passes == pytest.approx(0.049, abs=0.002)


@pytest.mark.parametrize(
    ("known", "after_1", "after_2", "after_4"),
    [(0.5, 0.625, 0.859, 0.980), (0.7, 0.475, 0.724, 0.924), (1.0, 0.25, 0.4375, 0.684)],
)
def test_who_makes_times_up_is_found_within_a_few_leases(
    known: float, after_1: float, after_2: float, after_4: float
) -> None:
    found = [1 - passing(known) ** leases for leases in (1, 2, 4)]
    assert found == pytest.approx([after_1, after_2, after_4], abs=0.001)


def test_who_makes_times_up_seldom_passes_the_controls_that_end_a_quarantine() -> None:
    assert passing(0.7) ** RELEASING == pytest.approx(0.145, abs=0.001)
    assert (1 - wronged()) ** RELEASING == pytest.approx(0.988, abs=0.001)
    assert RELEASING < PROVEN, "every lease on the way back carries a control"


def test_a_fifth_of_attackers_seldom_makes_up_what_a_class_knows() -> None:
    def made_up(voices: int, malicious_share: float = 0.2) -> float:
        needed = [n for n in range(KNOWN_BY, voices + 1) if n >= AGREEING * voices]
        return sum(
            comb(voices, n) * malicious_share**n * (1 - malicious_share) ** (voices - n)
            for n in needed
        )

    assert max(made_up(voices) for voices in range(KNOWN_BY, 60)) == pytest.approx(0.008)
    assert made_up(10) < 1e-4


def known(*times: float, network: str | None = None) -> float | None:
    found = known_time(peers(*times, network=network))
    return None if found is None else found.relative_time


def test_too_few_networks_know_nothing() -> None:
    assert known(0.5, 0.5) is None
    assert known(0.5, 0.5, 0.5, 0.5, network="one") is None
    assert known(0.5, 0.5, 0.5) == 0.5


def test_operated_agents_each_know() -> None:
    assert known(0.5, 0.52, 0.54, network="") == 0.52


def test_a_class_that_does_not_agree_knows_nothing() -> None:
    assert known(0.5, 0.8, 1.2) is None
    assert known(0.5, 0.5, 0.5, 0.5, 1.2) == 0.5
    assert known(0.5, 0.5, 0.5, 1.1, 1.2) is None


def test_slower_is_forgiven_farther_than_faster() -> None:
    half = Known(relative_time=0.5, certain=True)
    assert not off(0.41, half)
    assert off(0.39, half)
    assert not off(0.99, half)
    assert off(1.01, half)


def test_a_faster_time_is_a_fault_only_where_as_many_agree_as_outweigh_its_own_voice() -> None:
    """Against three attackers, who call a good kernel slow before anybody else has measured it."""
    assert passes(Preferences(challenger=CONTRADICTED_BY, champion=1), malicious_share=0.2)
    assert not passes(Preferences(challenger=CONTRADICTED_BY - 1, champion=1), malicious_share=0.2)
    for times in ([10.0] * (CONTRADICTED_BY - 1), [10.0] * KNOWN_BY):
        buried = known_time(peers(*times))
        assert buried is not None
        assert not off(0.5, buried)
        assert off(21.0, buried)
    for sure in (peers(*[1.0] * CONTRADICTED_BY), peers(*[1.0] * KNOWN_BY, network="")):
        found = known_time(sure)
        assert found is not None
        assert off(0.5, found)


@given(st.floats(min_value=0.01, max_value=100), st.floats(min_value=0.99, max_value=1.01))
def test_noise_of_one_percent_never_fails_a_control(usual: float, noise: float) -> None:
    assert not off(usual * noise, Known(relative_time=usual, certain=True))


def test_a_ballot_may_be_faster_than_a_disturbed_measurement_and_not_than_another() -> None:
    assert consistent(0.5, 0.9)
    assert consistent(0.5, 0.5)
    assert not consistent(0.4, 0.9)
    assert not consistent(0.7, 0.5)
