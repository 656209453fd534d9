"""How many schedules there would be without the rules (nnJIT Table 6)."""

from math import comb, prod

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.extents import Extents

ON_OR_OFF = 3
"""cache_read, cache_write and unroll."""


def naive_space_size(workload: Workload) -> int:
    """Rows and columns split in three, the summed axis in two, and three switches.

    2,099,520 for matmul 384x768x768, the figure of Table 6.
    """
    extents = Extents.of(workload)
    splits = _splits(extents.m, 3) * _splits(extents.n, 3) * _splits(extents.k, 2)
    return int(splits * 2**ON_OR_OFF)


def _splits(extent: int, parts: int) -> int:
    """Ordered ways to write `extent` as a product of `parts` factors."""
    return prod(comb(power + parts - 1, parts - 1) for power in _prime_powers(extent))


def _prime_powers(extent: int) -> list[int]:
    powers: list[int] = []
    prime = 2
    while extent > 1:
        power = 0
        while extent % prime == 0:
            extent //= prime
            power += 1
        powers.append(power)
        prime = prime + 1 if prime * prime <= extent else max(extent, prime + 1)
    return powers
