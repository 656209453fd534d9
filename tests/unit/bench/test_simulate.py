"""What a simulation may claim of rates that it saw few of."""

import pytest

from bench.simulate import at_most, parts
from kernelzoo.domain.trust import ALL_DEFENCES, Defence


@pytest.mark.parametrize(
    ("wrong", "keys", "bound"), [(0, 120, 0.0247), (0, 6, 0.393), (1, 120, 0.0390), (6, 6, 1.0)]
)
def test_the_bound_on_a_rate_is_exact(wrong: int, keys: int, bound: float) -> None:
    assert at_most(wrong, keys) == pytest.approx(bound, abs=0.0005)


def test_every_defence_is_left_out_once_and_all_of_them_once() -> None:
    left_out = [ALL_DEFENCES - part.defences for part in parts(1, 1)]
    assert all(left_out.count(frozenset({each})) == 1 for each in Defence)
    assert left_out.count(ALL_DEFENCES) == 1
