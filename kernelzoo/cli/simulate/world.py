"""How fast kernels truly are on invented devices: an analytic model that nobody else is told.

A kernel is as fast as the device allows, or slower by what it lacks anywhere and by how badly it
suits this device. So many kernels are equally good, as in the spaces of real devices, where a dozen
of K0's lie within 2 % (bench/results): that is what makes a vote among them hard.
"""

from dataclasses import dataclass
from hashlib import sha256
from random import Random

LACKS = 0.3
SUITS = 0.2
"""Deviations of the slowdown; what is negative is none."""
EQUALS = 0.003
"""Deviation among kernels at the limit."""

PEAK_GFLOPS = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`flops` of one call. Times are in nanoseconds."""

    seed: int
    flops: int

    def call_ns(self, device: str, candidate: str) -> float:
        slowdown = LACKS * self._gauss(candidate) + SUITS * self._gauss(device, candidate)
        equals = EQUALS * abs(self._gauss("equals", device, candidate))
        return 1.1 * self.flops / PEAK_GFLOPS * (1 + max(slowdown, 0) + equals)

    def _gauss(self, *names: str) -> float:
        """A standard normal number for these names."""
        text = "/".join((str(self.seed), *names))
        return Random(sha256(text.encode()).digest()).gauss(0, 1)
