"""Says how fast kernels truly are on invented devices: an analytic model that nobody else is told.

A kernel is as fast as the device allows, or slower by how badly it suits any device, those of this
family, and this one. The slowdowns are spread as those of real spaces: of the 215 spaces of
fixtures/recorded with ten kernels or more (34 workloads, seven settings of two engines) half have a
median kernel 16 % slower than the best, a worst one 79 % slower, and 6 % of their kernels within
2 % of the best; 30 kernels of this model have 13 %, 76 % and 10 %.
"""

from dataclasses import dataclass
from hashlib import sha256
from math import exp, sqrt
from random import Random

TYPICAL = 0.16
SPREAD = 0.8
AHEAD = 0.03
"""A slowdown is `TYPICAL` times the exponential of a normal number of deviation `SPREAD`, less
`AHEAD`; what is negative then is none."""
COMMON = 0.25
FAMILY = 0.35
"""Shares of that number's variance that all devices and that relatives have in common; the rest is
the device's own. Relatives so rank a space with a correlation of 0.6, others with 0.25, which is
the median of fixtures/recorded; half of its pairs are between 0.03 and 0.52."""
EQUALS = 0.003
"""Deviation among kernels at the limit."""

PEAK_GFLOPS = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`flops` of one call. Times are in nanoseconds, of an idle and cool device. Devices named
    `family/device` are relatives.
    """

    seed: int
    flops: int

    def call_ns(self, device: str, candidate: str) -> float:
        slowdown = TYPICAL * exp(SPREAD * self._unfit(device, candidate)) - AHEAD
        equals = EQUALS * abs(self._gauss("equals", device, candidate))
        return 1.1 * self.flops / PEAK_GFLOPS * (1 + max(slowdown, 0) + equals)

    def _unfit(self, device: str, candidate: str) -> float:
        family, _, _ = device.partition("/")
        return (
            sqrt(COMMON) * self._gauss(candidate)
            + sqrt(FAMILY) * self._gauss("family", family, candidate)
            + sqrt(1 - COMMON - FAMILY) * self._gauss(device, candidate)
        )

    def _gauss(self, *names: str) -> float:
        """A standard normal number for these names."""
        text = "/".join((str(self.seed), *names))
        return Random(sha256(text.encode()).digest()).gauss(0, 1)
