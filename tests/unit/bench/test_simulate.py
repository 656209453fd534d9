"""A simulation claims little of rates that it saw few of."""

import pytest

from bench.crowd.simulate import at_most, parts
from bench.crowd.strangers import CASES
from bench.crowd.strangers import parts as strangers
from cli.simulate.scenario import Attack
from kernelzoo.domain.trust import ALL_DEFENCES, Defence


@pytest.mark.parametrize(
    ("wrong", "keys", "bound"), [(0, 120, 0.0247), (0, 6, 0.393), (1, 120, 0.0390), (6, 6, 1.0)]
)
def test_the_bound_on_a_rate_is_exact(wrong: int, keys: int, bound: float) -> None:
    assert at_most(wrong, keys) == pytest.approx(bound, abs=0.0005)


def test_every_defence_is_left_out_by_itself_or_under_the_attack_that_it_is_for() -> None:
    left_out = [ALL_DEFENCES - part.defences for part in parts(1, 1, 1)]
    of_strangers = frozenset(defence for case in CASES for defence in case.without)
    for each in Defence:
        assert left_out.count(frozenset({each})) == 1 or each in of_strangers
    assert left_out.count(ALL_DEFENCES) == 1


def test_every_attack_is_simulated() -> None:
    told = [
        each.attack for part in (*parts(1, 1, 1), *strangers(1, 1, 5)) for each in part.scenarios
    ]
    assert set(told) == set(Attack)


def test_no_attack_is_called_harmless_with_what_it_does_without_its_defence() -> None:
    assert all(case.harmless < case.harmful for case in CASES)
